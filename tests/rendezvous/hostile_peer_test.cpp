// Whatever is sent to the TCP store's port, the job that it serves goes on.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "rendezvous/raw_peer.hpp"
#include "rendezvous/store_protocol.hpp"
#include "rendezvous/store_server.hpp"
#include "rendezvous/tcp_store.hpp"

namespace ferrule::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class HostilePeer : public testing::Test {
 protected:
  void start(ServerOptions options = {}) {
    options.addresses = resolve("127.0.0.1", 0, Deadline::after(seconds(5))).value();
    options.job = "job";
    server_ = StoreServer::listen(options).value();
    client_ = TcpStore::connect(server_->addresses(), "job", Deadline::after(seconds(10))).value();
    ASSERT_TRUE(client_->set("before", "1").ok());
  }

  void expect_the_job_unharmed() {
    EXPECT_EQ(client_->get("before", Deadline::after(seconds(20))).value(), "1");
    ASSERT_TRUE(client_->set("after", "2").ok());
    auto other = TcpStore::connect(server_->addresses(), "job", Deadline::after(seconds(20)));
    ASSERT_TRUE(other.ok()) << other.status().text();
    EXPECT_EQ(other.value()->get("after", Deadline::after(seconds(20))).value(), "2");
    EXPECT_EQ(other.value()->get("before", Deadline::after(seconds(20))).value(), "1");
  }

  Descriptor dial() const { return rendezvous::dial(server_->addresses()[0]); }
  static void send(const Descriptor& socket, std::string_view bytes) { send_bytes(socket, bytes); }

  std::shared_ptr<StoreServer> server_;
  std::shared_ptr<TcpStore> client_;
};

std::string hello() { return hello_frame("job"); }

std::string random_bytes(std::mt19937& random, std::size_t count) {
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

// Random bytes, real frames with some bytes changed, real frames cut short, and all that after a proper
// hello.
std::string hostile_message(std::mt19937& random) {
  const std::string start = random() % 2 == 0 ? hello() : "";
  std::string frame = make_frame(static_cast<StoreOperation>(random() % 70),
                                 random_bytes(random, random() % 40), random_bytes(random, random() % 64));
  switch (random() % 4) {
    case 0:
      return start + random_bytes(random, random() % 200);
    case 1:
      frame[random() % frame.size()] = static_cast<char>(random());
      return start + frame;
    case 2:
      return start + frame.substr(0, random() % frame.size());
    default:
      return start + frame + frame;
  }
}

TEST_F(HostilePeer, TenThousandRandomFrames) {
  start();
  std::mt19937 random(20240501);
  std::thread job([&] {
    for (int i = 0; i < 200; ++i) {
      const std::string key = "during/" + std::to_string(i);
      EXPECT_TRUE(client_->set(key, std::to_string(i)).ok());
      EXPECT_EQ(client_->get(key, Deadline::after(seconds(60))).value(), std::to_string(i));
    }
  });
  for (int i = 0; i < 10'000; ++i) send(dial(), hostile_message(random));
  job.join();
  expect_the_job_unharmed();
}

TEST_F(HostilePeer, OversizedLengthsCloseOnlyThatConnection) {
  start();
  const auto with_lengths = [](StoreOperation operation, std::uint16_t key, std::uint32_t value) {
    std::string frame = make_frame(operation, {}, {});
    for (int i = 0; i < 2; ++i) frame[6 + i] = static_cast<char>(key >> (8 * i));
    for (int i = 0; i < 4; ++i) frame[8 + i] = static_cast<char>(value >> (8 * i));
    return frame;
  };
  const std::string ok = make_frame(StoreOperation::ok, {}, {});
  for (const auto& [key, value] : {std::pair<std::uint16_t, std::uint32_t>{257, 0},
                                   {0xffff, 1},
                                   {1, (1u << 20) + 1},
                                   {1, 0xffffffffu}}) {
    const Descriptor socket = dial();
    send(socket, hello() + with_lengths(StoreOperation::set, key, value));
    EXPECT_EQ(receive_until_closed(socket), ok) << key << ", " << value;
  }
  const Descriptor stranger = dial();
  send(stranger, with_lengths(StoreOperation::hello, 0, StoreFrame::kMaxStrangerBytes + 1));
  EXPECT_EQ(receive_until_closed(stranger), "");
  expect_the_job_unharmed();
}

TEST_F(HostilePeer, RequestsBeforeAHelloAreNotServed) {
  start();
  for (const auto operation : {StoreOperation::set, StoreOperation::get, StoreOperation::ok}) {
    const Descriptor socket = dial();
    send(socket, make_frame(operation, "before", encode_u64(0)));
    EXPECT_EQ(receive_until_closed(socket), "");
  }
  const Descriptor other_job = dial();
  send(other_job, hello_frame("another"));
  EXPECT_EQ(receive_until_closed(other_job), make_frame(StoreOperation::wrong_job, {}, {}));
  expect_the_job_unharmed();
}

TEST_F(HostilePeer, ValuesCannotBeOverwritten) {
  start();
  const Descriptor socket = dial();
  send(socket, hello() + make_frame(StoreOperation::set, "before", "changed") + "end of frames");
  EXPECT_NE(receive_until_closed(socket).find("set before"), std::string::npos);
  expect_the_job_unharmed();
}

TEST_F(HostilePeer, HalfOpenConnectionsAreClosed) {
  ServerOptions options;
  options.frame_timeout = milliseconds(300);
  start(options);
  std::vector<Descriptor> sockets;
  for (int i = 0; i < 4; ++i) sockets.push_back(dial());
  send(sockets[1], hello().substr(0, 5));
  send(sockets[2], hello().substr(0, 13));
  send(sockets[3], hello() + make_frame(StoreOperation::set, "key", "value").substr(0, 14));
  for (const Descriptor& socket : sockets) receive_until_closed(socket);
  expect_the_job_unharmed();
}

TEST_F(HostilePeer, PeersThatDoNotReadAreClosed) {
  ServerOptions options;
  options.frame_timeout = milliseconds(300);
  start(options);
  ASSERT_TRUE(client_->set("large", std::string(Store::kMaxValueBytes, 'x')).ok());
  const Descriptor socket = dial();
  send(socket, hello());
  const std::string get = make_frame(StoreOperation::get, "large", encode_u64(0));
  for (int i = 0; i < 50; ++i) send(socket, get);
  std::this_thread::sleep_for(milliseconds(1000));  // long enough for the server to give up on us
  EXPECT_LT(receive_until_closed(socket).size(), 50 * Store::kMaxValueBytes);
  expect_the_job_unharmed();
}

TEST_F(HostilePeer, AFloodOfConnectionsLeavesRoomForTheJob) {
  ServerOptions options;
  options.max_strangers = 16;
  start(options);
  std::vector<Descriptor> sockets;
  for (int i = 0; i < 400; ++i) sockets.push_back(dial());
  receive_until_closed(sockets.front());  // the oldest was turned out
  expect_the_job_unharmed();
}

TEST_F(HostilePeer, TooManyClientsAreTurnedAway) {
  ServerOptions options;
  options.max_clients = 3;
  start(options);
  std::vector<Descriptor> sockets;
  for (int i = 0; i < 2; ++i) {
    sockets.push_back(dial());
    send(sockets.back(), hello());
    char reply[StoreFrame::kHeaderBytes];
    ASSERT_EQ(::recv(sockets.back().get(), reply, sizeof(reply), MSG_WAITALL),
              static_cast<ssize_t>(sizeof(reply)));
  }
  const Descriptor one_more = dial();
  send(one_more, hello());
  EXPECT_EQ(receive_until_closed(one_more), "");
  sockets.clear();
  expect_the_job_unharmed();
}

// The other side: a server that answers nonsense must not harm a client.
TEST(HostileServer, GarbageIsAnErrorNotACrash) {
  std::mt19937 random(7);
  const RawListener listener;
  constexpr int kRounds = 200;
  std::thread liar([&] {
    for (int i = 0; i < kRounds; ++i) {
      const Descriptor socket = listener.accept();
      char request[64];
      (void)::recv(socket.get(), request, sizeof(request), 0);
      std::string answer = i % 2 == 0 ? make_frame(StoreOperation::ok, {}, {}) : "";
      answer += hostile_message(random);
      (void)::send(socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    auto attempt = StoreConnection::open(listener.address(), "job", Deadline::after(seconds(10)));
    if (!attempt.connection) {
      EXPECT_FALSE(attempt.why.empty());
      continue;
    }
    (void)attempt.connection->request(make_frame(StoreOperation::get, "key", encode_u64(0)),
                                      Deadline::after(seconds(10)));
  }
  liar.join();
}

}  // namespace
}  // namespace ferrule::rendezvous
