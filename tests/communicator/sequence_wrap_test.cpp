// The number of a collective has 32 bits. A communicator that starts near the end of them goes on at 0.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "communicator/communicator.hpp"
#include "transport/registry.hpp"

namespace ferrule::communicator {
namespace {

using namespace std::chrono_literals;

constexpr std::int32_t kRanks = 3;
constexpr std::uint32_t kFirst = 0xffffffffU - 9;

transport::Membership membership_of(std::int32_t rank) {
  transport::Membership membership;
  membership.rank = rank;
  membership.communicator = 0x5e90e9ceULL;
  for (std::int32_t peer = 0; peer < kRanks; ++peer) {
    membership.peers.push_back({"host", "host", 100 + peer, "127.0.0.1", 0, 0});
  }
  return membership;
}

Result<std::unique_ptr<Communicator>> make_rank(std::int32_t rank, const Defaults& defaults) {
  const transport::Membership membership = membership_of(rank);
  auto transport = transport::find_transport("loopback")->connect(membership, nullptr, Deadline::after(10s));
  FERRULE_RETURN_IF_ERROR(transport.status());
  return Communicator::make(std::move(transport).value(), membership, defaults);
}

void on_all_ranks(const Defaults& defaults, const std::function<void(std::int32_t, Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      auto comm = make_rank(rank, defaults);
      ASSERT_TRUE(comm.ok()) << comm.status().text();
      body(rank, **comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Defaults defaults_near_the_end() {
  Defaults defaults;
  defaults.first_sequence = kFirst;
  defaults.timeout = 10s;
  return defaults;
}

Call call_of(std::vector<float>& data) {
  Call call;
  call.send = call.recv = data.data();
  call.count = data.size();
  return call;
}

Status reduce(Communicator& comm, std::vector<float>& data) {
  auto work = comm.start(call_of(data), false);
  FERRULE_RETURN_IF_ERROR(work.status());
  return comm.wait(**work, Deadline::never());
}

// Known plans and new ones, short and long, with and without the checks that send words of their own.
TEST(SequenceWrap, CollectivesGoOn) {
  for (const bool checks : {false, true}) {
    Defaults defaults = defaults_near_the_end();
    defaults.check_identity = defaults.check_nonfinite = checks;
    on_all_ranks(defaults, [](std::int32_t rank, Communicator& comm) {
      for (std::size_t i = 0; i < 40; ++i) {
        std::vector<float> data(i % 3 == 0 ? 5 : 1000 * i, static_cast<float>(rank));
        const Status status = reduce(comm, data);
        ASSERT_TRUE(status.ok()) << "number " << i << ": " << status.text();
        EXPECT_EQ(data, std::vector<float>(data.size(), 3.0F)) << "number " << i;
      }
    });
  }
}

TEST(SequenceWrap, ManyUnderWayAtOnce) {
  on_all_ranks(defaults_near_the_end(), [](std::int32_t rank, Communicator& comm) {
    std::vector<std::vector<float>> data(30, std::vector<float>(20000, static_cast<float>(rank)));
    std::vector<std::shared_ptr<Work>> works;
    for (auto& each : data) {
      auto work = comm.start(call_of(each), true);
      ASSERT_TRUE(work.ok()) << work.status().text();
      works.push_back(*work);
    }
    for (std::size_t i = works.size(); i-- > 0;) {
      const Status status = comm.wait(*works[i], Deadline::after(30s));
      ASSERT_TRUE(status.ok()) << status.text();
      EXPECT_EQ(data[i].back(), 3.0F);
    }
  });
}

// A disagreement on each side of the wrap is told with both values, and survived.
TEST(SequenceWrap, DisagreementsAreSettled) {
  on_all_ranks(defaults_near_the_end(), [](std::int32_t rank, Communicator& comm) {
    for (std::size_t i = 0; i < 16; ++i) {
      std::vector<float> data(i % 5 == 4 && rank == 1 ? 11 : 10, 1.0F);
      const Status status = reduce(comm, data);
      if (i % 5 == 4) {
        EXPECT_EQ(status.code(), ErrorCode::mismatch) << "number " << i << ": " << status.text();
        EXPECT_NE(status.text().find("11"), std::string::npos) << status.text();
      } else {
        ASSERT_TRUE(status.ok()) << "number " << i << ": " << status.text();
      }
    }
  });
}

TEST(SequenceWrap, AMissingRankIsNamed) {
  Defaults defaults = defaults_near_the_end();
  defaults.first_sequence = 0xffffffffU;
  defaults.timeout = 1s;
  on_all_ranks(defaults, [](std::int32_t rank, Communicator& comm) {
    std::vector<float> data(10, 1.0F);
    ASSERT_TRUE(reduce(comm, data).ok());
    if (rank == 1) return std::this_thread::sleep_for(2s);
    const Status status = reduce(comm, data);
    EXPECT_NE(status.text().find("all_reduce #0"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("rank 1 ("), std::string::npos) << status.text();
  });
}

}  // namespace
}  // namespace ferrule::communicator
