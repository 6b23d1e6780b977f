#include "transport/vigil.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace ferrule::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Rank 1 has children of its own from here on.
constexpr std::int32_t kRanks = Vigil::kBranches + 6;
constexpr seconds kLimit{30};

Membership membership_of(std::int32_t rank, std::int32_t size) {
  Membership membership;
  membership.rank = rank;
  membership.communicator = 0x1234;
  for (std::int32_t peer = 0; peer < size; ++peer) {
    membership.peers.push_back(
        {"host" + std::to_string(peer), std::to_string(peer), 100 + peer, "127.0.0.1"});
  }
  return membership;
}

std::vector<std::int32_t> wait_for_news(Vigil& vigil, milliseconds limit = kLimit) {
  pollfd entry{vigil.news(), POLLIN, 0};
  ::poll(&entry, 1, static_cast<int>(limit.count()));
  return vigil.take();
}

/// All ranks in this process, except one in a process of its own that can be killed.
class World {
 public:
  explicit World(std::int32_t size, std::int32_t apart = -1) : vigils_(static_cast<std::size_t>(size)) {
    std::vector<std::uint16_t> ports(vigils_.size());
    for (std::int32_t rank = 0; rank < size; ++rank) {
      auto made = Vigil::listen(membership_of(rank, size));
      EXPECT_TRUE(made.ok()) << made.status().text();
      at(rank) = std::move(made).value();
      ports[static_cast<std::size_t>(rank)] = at(rank)->port();
    }
    if (apart >= 0) {
      victim_ = ::fork();
      if (victim_ == 0) be(apart, ports);
      // Not destroyed: a farewell must not be said for the rank that lives elsewhere.
      ::new (&at(apart)) std::unique_ptr<Vigil>();
    }
    std::vector<std::thread> threads;
    for (std::int32_t rank = 0; rank < size; ++rank) {
      if (rank == apart) continue;
      threads.emplace_back([this, rank, &ports] {
        const Status status = at(rank)->connect(ports, Deadline::after(kLimit));
        EXPECT_TRUE(status.ok()) << status.text();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  ~World() { kill(); }

  std::unique_ptr<Vigil>& at(std::int32_t rank) { return vigils_[static_cast<std::size_t>(rank)]; }
  void kill() {
    if (victim_ <= 0) return;
    ::kill(victim_, SIGKILL);
    ::waitpid(std::exchange(victim_, 0), nullptr, 0);
  }

 private:
  [[noreturn]] void be(std::int32_t rank, const std::vector<std::uint16_t>& ports) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!at(rank)->connect(ports, Deadline::after(kLimit)).ok()) ::_exit(1);
    while (true) ::pause();
  }

  std::vector<std::unique_ptr<Vigil>> vigils_;
  pid_t victim_ = 0;
};

void expect_all_hear_of(std::int32_t dead) {
  World world(kRanks, dead);
  world.kill();
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    if (rank == dead) continue;
    EXPECT_THAT(wait_for_news(*world.at(rank)), ::testing::ElementsAre(dead)) << "rank " << rank;
  }
}

TEST(Vigil, TheTreeReachesEverybodyOnce) {
  std::vector<int> parents(10000);
  for (std::int32_t rank = 0; rank < 10000; ++rank) {
    const auto children = Vigil::children_of(rank, 10000);
    EXPECT_LE(children.size(), static_cast<std::size_t>(Vigil::kBranches));
    for (const std::int32_t child : children) {
      EXPECT_EQ(Vigil::parent_of(child), rank);
      ++parents[static_cast<std::size_t>(child)];
    }
  }
  for (std::size_t rank = 1; rank < parents.size(); ++rank) EXPECT_EQ(parents[rank], 1);
}

TEST(Vigil, ADeathInTheMiddleOfTheTreeIsToldOnBothSides) { expect_all_hear_of(1); }
TEST(Vigil, TheDeathOfALeafIsToldToAll) { expect_all_hear_of(kRanks - 1); }
TEST(Vigil, TheDeathOfTheRootIsToldToAll) { expect_all_hear_of(0); }

TEST(Vigil, AnOrderlyDepartureIsNoDeath) {
  World world(4);
  world.at(2).reset();
  EXPECT_THAT(wait_for_news(*world.at(0), milliseconds(300)), ::testing::IsEmpty());
  EXPECT_THAT(world.at(3)->take(), ::testing::IsEmpty());
}

Descriptor connect_to(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return socket;
}

TEST(Vigil, StrangersDisturbNobody) {
  auto parent = Vigil::listen(membership_of(0, 2));
  auto child = Vigil::listen(membership_of(1, 2));
  ASSERT_TRUE(parent.ok() && child.ok());
  const std::uint16_t ports[] = {(*parent)->port(), 0};
  std::vector<Descriptor> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(connect_to(ports[0]));
  const Descriptor garbage = connect_to(ports[0]);
  const std::string noise(1000, 'x');
  EXPECT_GT(::send(garbage.get(), noise.data(), noise.size(), MSG_NOSIGNAL), 0);
  const Descriptor liar = connect_to(ports[0]);
  VigilWord other_communicator;
  other_communicator.communicator = 0x9999;
  other_communicator.source = 1;
  EXPECT_GT(::send(liar.get(), &other_communicator, sizeof(other_communicator), MSG_NOSIGNAL), 0);
  std::thread other([&] { EXPECT_TRUE((*child)->connect(ports, Deadline::after(kLimit)).ok()); });
  const Status status = (*parent)->connect(ports, Deadline::after(kLimit));
  other.join();
  EXPECT_TRUE(status.ok()) << status.text();
}

TEST(Vigil, AMissingChildIsNamedAtTheDeadline) {
  auto parent = Vigil::listen(membership_of(0, 3));
  ASSERT_TRUE(parent.ok());
  const std::uint16_t ports[] = {(*parent)->port(), 0, 0};
  const Status status = (*parent)->connect(ports, Deadline::after(milliseconds(100)));
  EXPECT_EQ(status.code(), ErrorCode::timeout) << status.text();
  EXPECT_NE(status.text().find("rank 2 (host host2, pid 102)"), std::string::npos) << status.text();
}

TEST(Vigil, AParentThatHasDiedIsNamed) {
  auto parent = Vigil::listen(membership_of(0, 2));
  auto child = Vigil::listen(membership_of(1, 2));
  ASSERT_TRUE(parent.ok() && child.ok());
  const std::uint16_t ports[] = {(*parent)->port(), 0};
  parent->reset();
  const Status status = (*child)->connect(ports, Deadline::after(kLimit));
  EXPECT_EQ(status.code(), ErrorCode::peer_lost) << status.text();
  EXPECT_NE(status.text().find("rank 0 (host host0, pid 100)"), std::string::npos) << status.text();
}

}  // namespace
}  // namespace ferrule::transport
