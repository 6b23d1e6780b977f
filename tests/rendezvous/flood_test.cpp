// Many sockets at once that want no good: real ranks still meet.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "rendezvous/join.hpp"
#include "rendezvous/raw_peer.hpp"
#include "rendezvous/sealed_store.hpp"
#include "rendezvous/store_server.hpp"
#include "rendezvous/tcp_store.hpp"

namespace ferrule::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kRanks = 8;

Job test_job() {
  const auto key = SecretKey::from_text("the secret of this job");
  return key.ok() ? Job("job", *key) : Job("job");
}

class Flood : public testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.addresses = resolve("127.0.0.1", 0, Deadline::after(seconds(5))).value();
    options.job = test_job();
    options.max_clients = 64;
    options.frame_timeout = seconds(60);  // nobody leaves by himself
    options.linger = milliseconds(100);
    server_ = StoreServer::listen(options).value();
  }
  const SocketAddress& address() const { return server_->addresses()[0]; }

  /// All ranks, as separate clients, until each knows the others.
  void expect_that_ranks_meet() {
    std::vector<std::thread> ranks;
    std::atomic<int> met = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank] {
        const Deadline deadline = Deadline::after(seconds(60));
        const auto store = TcpStore::connect(server_->addresses(), test_job(), deadline);
        ASSERT_TRUE(store.ok()) << store.status().text();
        SealedStore sealed(*store, test_job().secret);
        const auto members = join(sealed, {rank, kRanks, "127.0.0.1", "lo", {}, test_job().secret}, deadline);
        ASSERT_TRUE(members.ok()) << members.status().text();
        if (members->size() == kRanks) ++met;
      });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT_EQ(met, kRanks);
  }

  std::shared_ptr<StoreServer> server_;
};

/// Runs `what` again and again on threads of its own until it goes.
class Nuisance {
 public:
  Nuisance(int threads, const std::function<void(std::mt19937&)>& what) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, what, i] {
        std::mt19937 random(static_cast<unsigned>(i));
        while (!stop_) what(random);
      });
    }
  }
  ~Nuisance() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

std::string random_bytes_of(std::mt19937& random, std::size_t count) {
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

TEST_F(Flood, OfGarbage) {
  const Nuisance garbage(2, [&](std::mt19937& random) {
    const Descriptor socket = dial(address());
    send_bytes(socket, random_bytes_of(random, random() % 2000));
  });
  expect_that_ranks_meet();
}

TEST_F(Flood, OfHellosWithoutAProof) {
  const Nuisance hellos(2, [&](std::mt19937& random) {
    const Descriptor socket = dial(address());
    send_bytes(socket,
               hello_frame(random() % 2 == 0 ? "job" : "other", true, random_bytes_of(random, kNonceBytes)));
    const RawFrame answer = receive_frame(socket);
    if (answer.operation == StoreOperation::challenge) {
      send_bytes(socket,
                 make_frame(StoreOperation::proof, {}, random_bytes_of(random, SecretKey::kTagBytes)));
      (void)receive_frame(socket);
    }
  });
  expect_that_ranks_meet();
}

TEST_F(Flood, OfHalfOpenConnections) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::size_t most = std::min<std::size_t>(2000, limit.rlim_cur / 2);
  std::vector<Descriptor> silent;
  for (std::size_t i = 0; i < most; ++i) {
    silent.push_back(dial(address()));
    if (i % 3 == 1) send_bytes(silent.back(), hello_frame("job", true).substr(0, i % 40));
  }
  expect_that_ranks_meet();
  EXPECT_EQ(receive_until_closed(silent.front()), "");  // it had to make room
  // The newest of them are still there, as many as are allowed.
  char byte = 0;
  EXPECT_EQ(::recv(silent.back().get(), &byte, 1, MSG_DONTWAIT), -1);
}

// Bytes that trickle in do not prolong a stranger's time.
TEST(Trickle, DoesNotKeepAConnectionOpen) {
  ServerOptions options;
  options.addresses = resolve("127.0.0.1", 0, Deadline::after(seconds(5))).value();
  options.job = "job";
  options.frame_timeout = milliseconds(300);
  const auto server = StoreServer::listen(options).value();
  const Descriptor socket = dial(server->addresses()[0]);
  const std::string hello = hello_frame(std::string(StoreFrame::kMaxJobBytes, 'j'));
  std::size_t sent = 0;
  const Deadline deadline = Deadline::after(seconds(20));
  char byte = 0;
  while (::recv(socket.get(), &byte, 1, MSG_DONTWAIT) != 0 && errno == EAGAIN && !deadline.passed()) {
    send_bytes(socket, hello.substr(sent++ % hello.size(), 1));
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_FALSE(deadline.passed());
  EXPECT_LT(sent, hello.size());
}

// Clients ask for one absent key after the other: the server forgets each when its time is over.
TEST(Watches, OfKeysThatNeverComeAreForgotten) {
  ServerOptions options;
  options.addresses = resolve("127.0.0.1", 0, Deadline::after(seconds(5))).value();
  options.job = "job";
  options.linger = milliseconds(100);
  const auto server = StoreServer::listen(options).value();
  const auto store = TcpStore::connect(server->addresses(), "job", Deadline::after(seconds(5))).value();
  for (int i = 0; i < 100; ++i) {
    const auto value = store->get("absent/" + std::to_string(i), Deadline::after(milliseconds(1)));
    EXPECT_EQ(value.status().code(), ErrorCode::timeout);
  }
  EXPECT_EQ(server->awaited_keys(), 0u);
  std::thread waiter([&] { EXPECT_EQ(store->get("comes", Deadline::after(seconds(20))).value(), "1"); });
  while (server->awaited_keys() == 0) std::this_thread::sleep_for(milliseconds(1));
  ASSERT_TRUE(server->set("comes", "1").ok());
  waiter.join();
  EXPECT_EQ(server->awaited_keys(), 0u);
}

TEST(FullStore, HoldsSoManyEntriesEvenIfTheyAreSmall) {
  constexpr std::size_t kLimit = std::size_t{1} << 20;
  MemoryStore store(kLimit);
  Status status;
  std::size_t entries = 0;
  while (status.ok() && entries <= kLimit / MemoryStore::kEntryBytes) {
    status = store.set(std::to_string(entries++), "");
  }
  EXPECT_EQ(status.code(), ErrorCode::system);
  EXPECT_NE(status.text().find("the store is full"), std::string::npos);
}

}  // namespace
}  // namespace ferrule::rendezvous
