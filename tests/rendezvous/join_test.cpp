#include "rendezvous/join.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <thread>

#include "rendezvous/fields.hpp"
#include "rendezvous/gather.hpp"
#include "rendezvous/wrapped_stores.hpp"

namespace ferrule::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using Memberships = std::vector<Result<Membership>>;

JoinRequest request(std::int32_t rank, std::int32_t size) { return {rank, size, "10.0.0.1", "eth0", "1.0"}; }

// Each request on a thread of its own.
Memberships join_all(Store& store, const std::vector<JoinRequest>& requests, std::chrono::nanoseconds time) {
  Memberships results(requests.size(), Status(ErrorCode::internal, "not run"));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = join(store, requests[i], Deadline::after(time)); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<JoinRequest> requests(std::int32_t size) {
  std::vector<JoinRequest> all;
  for (std::int32_t rank = 0; rank < size; ++rank) all.push_back(request(rank, size));
  return all;
}

// A store of the caller's that lets keys be overwritten, as torch's does.
class OverwritingStore final : public Store {
 public:
  Status set(std::string_view key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    values_[std::string(key)] = value;
    return Status();
  }
  Result<std::string> get(std::string_view key, Deadline deadline) override {
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (const auto found = values_.find(std::string(key)); found != values_.end()) return found->second;
      }
      if (deadline.passed()) return Status(ErrorCode::timeout, "not there");
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  std::string describe() const override { return "overwriting"; }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

TEST(Join, AllRanksHaveTheSameMembership) {
  for (const std::int32_t size : {1, 2, 3, 64}) {
    MemoryStore store;
    const Memberships all = join_all(store, requests(size), seconds(60));
    for (std::int32_t rank = 0; rank < size; ++rank) {
      ASSERT_TRUE(all[rank].ok()) << all[rank].status().text();
      const Membership& one = *all[rank];
      EXPECT_EQ(one.rank, rank);
      ASSERT_EQ(one.size(), size);
      EXPECT_NE(one.communicator, 0u);
      EXPECT_EQ(one.communicator, all[0]->communicator);
      EXPECT_EQ(one.interface, "eth0");
      for (const Peer& peer : one.peers) {
        EXPECT_EQ(peer.pid, ::getpid());
        EXPECT_EQ(peer.address, "10.0.0.1");
        EXPECT_EQ(peer.host_id, one.peers[0].host_id);
        EXPECT_FALSE(peer.host.empty());
      }
    }
  }
}

TEST(Join, CommunicatorsHaveDifferentIdentities) {
  MemoryStore one, other;
  EXPECT_NE(join(one, request(0, 1), Deadline::after(seconds(5)))->communicator,
            join(other, request(0, 1), Deadline::after(seconds(5)))->communicator);
}

TEST(Join, NamesTheRanksThatAreMissing) {
  MemoryStore store;
  const Memberships all = join_all(store, {request(0, 4), request(1, 4)}, milliseconds(500));
  for (const auto& one : all) {
    ASSERT_EQ(one.status().code(), ErrorCode::timeout) << one.status().text();
    EXPECT_THAT(one.status().text(), HasSubstr("ranks 2 and 3 of 4 did not arrive within 0.5 s at memory"));
  }
}

TEST(Join, RanksOfOneHostUseLoopbackWhereTheyMay) {
  MemoryStore store;
  auto all = requests(2);
  all[0].loopback = "lo";
  const auto members = join_all(store, all, seconds(30));
  ASSERT_TRUE(members[0].ok() && members[1].ok());
  EXPECT_EQ(members[0]->interface, "lo");
  EXPECT_EQ(members[1]->interface, "eth0");
}

TEST(Join, WithASecretTheGroupGetsAKeyOfItsOwn) {
  const auto secret = SecretKey::from_text("the secret of this job");
  if (!secret.ok()) GTEST_SKIP() << "this build has no libsodium";
  std::map<std::string, std::uint64_t> groups;  // tag of the key -> communicator
  for (int group = 0; group < 3; ++group) {
    MemoryStore store;
    auto all = requests(3);
    for (JoinRequest& one : all) one.secret = *secret;
    for (const auto& member : join_all(store, all, seconds(30))) {
      ASSERT_TRUE(member.ok()) << member.status().text();
      ASSERT_TRUE(member->link_key.has_value());
      const auto [at, added] = groups.emplace(member->link_key->tag("test", {}), member->communicator);
      EXPECT_EQ(at->second, member->communicator);
    }
    EXPECT_EQ(groups.size(), static_cast<std::size_t>(group) + 1);  // the same on all ranks, and new
  }
  MemoryStore store;
  EXPECT_FALSE(join_all(store, requests(1), seconds(30))[0]->link_key.has_value());
}

// What stands in the store may have been written by anybody.
TEST(Join, AProblemThatSaysNothingIsAnErrorToo) {
  MemoryStore store;
  ASSERT_TRUE(store.set("hello/problem", pack({"0", ""})).ok());
  const auto result = join(store, request(0, 2), Deadline::after(milliseconds(300)));
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), ErrorCode::corrupt) << result.status().text();
}

TEST(Join, NumbersThatAreNoneAreRefused) {
  for (const char* number : {"", "x", "1x", "99999999999999999999999"}) {
    MemoryStore store;
    ASSERT_TRUE(
        store.set("hello/1", pack({"1.0", "2", "b", "id", number, "10.0.0.2", "net", "7", "1", "1", "m"}))
            .ok());
    const auto result = join(store, request(0, 2), Deadline::after(seconds(5)));
    ASSERT_EQ(result.status().code(), ErrorCode::mismatch) << number;
    EXPECT_THAT(result.status().text(), HasSubstr("cannot be read"));
  }
}

TEST(Join, NamesRankZeroWhenItIsMissing) {
  MemoryStore store;
  const Memberships all = join_all(store, {request(1, 3), request(2, 3)}, milliseconds(300));
  for (const auto& one : all) {
    ASSERT_EQ(one.status().code(), ErrorCode::timeout);
    EXPECT_THAT(one.status().text(), HasSubstr("rank 0 of 3 did not arrive"));
  }
}

TEST(Join, WorldSizesThatDifferAreNamedOnAllRanks) {
  MemoryStore store;
  const Memberships all = join_all(store, {request(0, 2), request(1, 3), request(2, 3)}, seconds(30));
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].status().code(), ErrorCode::mismatch) << i << ": " << all[i].status().text();
    EXPECT_THAT(all[i].status().text(), HasSubstr("3"));
    EXPECT_THAT(all[i].status().text(), HasSubstr("says 2"));
  }
}

TEST(Join, RanksOfALargerWorldLearnOfTheSmaller) {
  MemoryStore store;
  const Memberships all = join_all(store, {request(0, 2), request(1, 2), request(3, 4)}, seconds(30));
  EXPECT_TRUE(all[0].ok());
  EXPECT_TRUE(all[1].ok());
  ASSERT_EQ(all[2].status().code(), ErrorCode::mismatch);
  EXPECT_THAT(all[2].status().text(), HasSubstr("there are 4 ranks, rank 0 says 2"));
}

TEST(Join, VersionsThatDifferAreNamedOnAllRanks) {
  MemoryStore store;
  std::vector<JoinRequest> mixed = requests(3);
  mixed[2].version = "2.0";
  for (const auto& one : join_all(store, mixed, seconds(30))) {
    ASSERT_EQ(one.status().code(), ErrorCode::mismatch);
    EXPECT_THAT(one.status().text(), testing::AllOf(HasSubstr("1.0"), HasSubstr("2.0"), HasSubstr("rank 2")));
  }
}

// The second claim is told at once, and so are the ranks that would otherwise wait for the one that is
// missing.
TEST(Join, TwoProcessesOfOneRankAreNamedEverywhere) {
  MemoryStore store;
  const Memberships all = join_all(store, {request(0, 3), request(1, 3), request(1, 3)}, seconds(60));
  for (const auto& one : all) {
    ASSERT_EQ(one.status().code(), ErrorCode::mismatch) << one.status().text();
    EXPECT_THAT(one.status().text(), HasSubstr("two processes claim rank 1: host "));
  }
}

TEST(Join, TwoProcessesOfRankZero) {
  MemoryStore store;
  const Memberships all = join_all(store, {request(0, 1), request(0, 1)}, seconds(30));
  EXPECT_NE(all[0].ok(), all[1].ok());
  const Status& loser = all[0].ok() ? all[1].status() : all[0].status();
  EXPECT_EQ(loser.code(), ErrorCode::mismatch);
}

TEST(Join, SecondClaimIsFoundInAStoreThatOverwrites) {
  OverwritingStore store;
  std::thread first([&] {
    const auto one = join(store, request(1, 3), Deadline::after(seconds(30)));
    EXPECT_EQ(one.status().code(), ErrorCode::mismatch);
  });
  Gathering gathering{store, "hello", 1, 3, Deadline::never(), {}};
  ASSERT_TRUE(store.get(gather_key(gathering, 1), Deadline::after(seconds(20))).ok());
  const Memberships all = join_all(store, {request(0, 3), request(1, 3)}, seconds(30));
  first.join();
  for (const auto& one : all) EXPECT_EQ(one.status().code(), ErrorCode::mismatch) << one.status().text();
}

TEST(Join, GarbageInTheStoreIsAnError) {
  for (const std::string& garbage : {std::string(), std::string("x"), std::string(1000, '\xff')}) {
    MemoryStore store;
    ASSERT_TRUE(store.set("hello/1", garbage).ok());
    EXPECT_EQ(join(store, request(0, 2), Deadline::after(seconds(20))).status().code(), ErrorCode::mismatch);
    MemoryStore other;
    ASSERT_TRUE(other.set("hello/all/0", garbage).ok());
    const Status status = join(other, request(1, 2), Deadline::after(seconds(20))).status();
    EXPECT_EQ(status.code(), ErrorCode::corrupt) << status.text();
  }
}

TEST(Exchange, GivesEveryRanksValueToEveryRank) {
  constexpr std::int32_t kSize = 8;
  auto store = std::make_shared<MemoryStore>();
  std::vector<std::thread> threads;
  for (std::int32_t rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      const auto exchange = make_exchange(store, rank, kSize, Deadline::after(seconds(60)));
      // The second one is too large for one value of the store; the third repeats a name.
      for (const auto& [name, bytes] :
           {std::pair("small", 3), std::pair("large", 400'000), std::pair("small", 5)}) {
        const auto all = exchange(name, std::string(bytes, static_cast<char>('a' + rank)));
        ASSERT_TRUE(all.ok()) << all.status().text();
        ASSERT_EQ(all->size(), static_cast<std::size_t>(kSize));
        for (std::int32_t of = 0; of < kSize; ++of) {
          EXPECT_EQ((*all)[of], std::string(bytes, static_cast<char>('a' + of)));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Exchange, NamesTheRankThatDoesNotTakePart) {
  auto store = std::make_shared<MemoryStore>();
  const auto all = make_exchange(store, 0, 2, Deadline::after(milliseconds(100)))("ucx", "mine");
  ASSERT_EQ(all.status().code(), ErrorCode::timeout);
  EXPECT_THAT(all.status().text(), HasSubstr("rank 1 of 2"));
}

TEST(ListRanks, ReadsLikeASentence) {
  EXPECT_EQ(list_ranks({2}), "rank 2");
  EXPECT_EQ(list_ranks({2, 3}), "ranks 2 and 3");
  EXPECT_EQ(list_ranks({1, 2, 3}), "ranks 1, 2 and 3");
  std::vector<std::int32_t> many(100, 7);
  EXPECT_THAT(list_ranks(many), HasSubstr("and 84 more"));
}

}  // namespace
}  // namespace ferrule::rendezvous
