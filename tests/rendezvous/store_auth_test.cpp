// Who does not know the job's secret gets nowhere, and both sides say why.
#include "rendezvous/store_auth.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "rendezvous/raw_peer.hpp"
#include "rendezvous/store_server.hpp"
#include "rendezvous/tcp_store.hpp"

namespace ferrule::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

Deadline soon() { return Deadline::after(seconds(20)); }

class StoreAuth : public testing::Test {
 protected:
  void SetUp() override {
    if (SecretKey::library().empty()) GTEST_SKIP() << "this build has no libsodium";
  }

  static SecretKey key(std::string_view text) { return SecretKey::from_text(text).value(); }
  static Job ours() { return {"job", key("the secret of this job")}; }

  void serve(const Job& job) {
    ServerOptions options;
    options.addresses = resolve("127.0.0.1", 0, soon()).value();
    options.job = job;
    options.frame_timeout = seconds(2);
    options.linger = milliseconds(100);
    server_ = StoreServer::listen(options).value();
  }
  const SocketAddress& address() const { return server_->addresses()[0]; }

  void expect_refused(const Job& job, const std::string& text) const {
    const auto store = TcpStore::connect(server_->addresses(), job, Deadline::after(seconds(60)));
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.status().code(), ErrorCode::mismatch);
    EXPECT_THAT(store.status().text(), testing::AllOf(HasSubstr(text), HasSubstr(address().text()),
                                                      HasSubstr("set FERRULE_JOB_SECRET")));
  }

  void expect_good(const Job& job) const {
    const auto store = TcpStore::connect(server_->addresses(), job, soon());
    ASSERT_TRUE(store.ok()) << store.status().text();
    const std::string name = "key/" + std::to_string(turn_++);
    ASSERT_TRUE((*store)->set(name, "value").ok());
    EXPECT_EQ((*store)->get(name, soon()).value(), "value");
  }

  /// A connection whose handshake was done by hand.
  struct Accepted {
    Descriptor socket;
    FrameTags tags;
    std::string sent;  // by us, in all
  };
  Accepted shake_hands() const {
    const Job job = ours();
    Descriptor socket = dial(address());
    Handshake handshake{*job.secret, random_bytes(kNonceBytes).value(), "", job.name};
    std::string sent = hello_frame(job.name, true, handshake.client_nonce);
    send_bytes(socket, sent);
    const RawFrame challenge = receive_frame(socket);
    EXPECT_EQ(challenge.operation, StoreOperation::challenge);
    handshake.server_nonce = challenge.value;
    const std::string proof = make_frame(StoreOperation::proof, {}, handshake.proof_of(Side::client));
    send_bytes(socket, proof);
    const RawFrame answer = receive_frame(socket);
    EXPECT_EQ(answer.operation, StoreOperation::ok);
    EXPECT_TRUE(handshake.accepts_proof_of(Side::server, answer.value));
    return {std::move(socket), FrameTags(handshake, Side::client), sent + proof};
  }
  static std::string seal(FrameTags& tags, const std::string& frame) {
    return frame + tags.of_next_sent(frame.substr(0, StoreFrame::kHeaderBytes),
                                     frame.substr(StoreFrame::kHeaderBytes));
  }

  std::shared_ptr<StoreServer> server_;
  mutable int turn_ = 0;
};

TEST_F(StoreAuth, RanksWithTheSecretMeet) {
  serve(ours());
  const auto one = TcpStore::connect(server_->addresses(), ours(), soon()).value();
  const auto other = TcpStore::connect(server_->addresses(), ours(), soon()).value();
  const std::string large(Store::kMaxValueBytes, 'x');
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(one->set("one/" + std::to_string(i), std::to_string(i)).ok());
    EXPECT_EQ(other->get("one/" + std::to_string(i), soon()).value(), std::to_string(i));
  }
  ASSERT_TRUE(one->set("large", large).ok());
  EXPECT_EQ(other->get("large", soon()).value(), large);
  EXPECT_EQ(other->get("never", Deadline::after(milliseconds(20))).status().code(), ErrorCode::timeout);
  EXPECT_EQ(one->set("large", "other").code(), ErrorCode::mismatch);  // the server's errors come through
  std::thread setter([&] { EXPECT_TRUE(one->set("later", "now").ok()); });
  EXPECT_EQ(other->get("later", soon()).value(), "now");
  setter.join();
}

TEST_F(StoreAuth, AWrongOrMissingSecretIsRefusedAndOthersAreNotDisturbed) {
  serve(ours());
  expect_refused({"job", key("another secret, as long")}, "does not know the job's secret");
  expect_refused({"job"}, "this job has a secret, and this rank has none");
  expect_good(ours());
}

TEST_F(StoreAuth, ASecretThatRankZeroHasNotIsRefused) {
  serve({"job"});
  expect_refused(ours(), "this rank has a job secret, and rank 0 has none");
  expect_good({"job"});
}

// The server of the job may come later, on another port of the list, than somebody who turns ranks away.
TEST_F(StoreAuth, AServerThatRefusesDoesNotStandInTheWayOfTheRightOne) {
  serve({"job", key("another secret, as long")});
  const auto wrong = server_;
  serve(ours());
  std::vector<SocketAddress> both = wrong->addresses();
  both.push_back(address());
  EXPECT_TRUE(TcpStore::connect(both, ours(), soon()).ok());
}

TEST_F(StoreAuth, AnotherJobIsPassedOverWhateverItsSecret) {
  serve({"other", key("another secret, as long")});
  const auto store = TcpStore::connect(server_->addresses(), ours(), Deadline::after(milliseconds(100)));
  EXPECT_EQ(store.status().code(), ErrorCode::timeout);
  EXPECT_THAT(store.status().text(), HasSubstr("it serves another job"));
}

TEST_F(StoreAuth, WithoutAProofNothingIsServed) {
  serve(ours());
  ASSERT_TRUE(server_->set("hidden", "value").ok());
  const std::string get = make_frame(StoreOperation::get, "hidden", encode_u64(0));
  for (const std::string& start : {std::string(), hello_frame("job", true)}) {
    const Descriptor socket = dial(address());
    send_bytes(socket, start);
    if (!start.empty()) {
      EXPECT_EQ(receive_frame(socket).operation, StoreOperation::challenge);
    }
    send_bytes(socket, get);
    EXPECT_EQ(receive_until_closed(socket), "");
  }
  expect_good(ours());
}

TEST_F(StoreAuth, GuessedProofsAndTheServersOwnAreRefused) {
  serve(ours());
  const Handshake known{*ours().secret, std::string(kNonceBytes, 'n'), "", "job"};
  for (int kind = 0; kind < 3; ++kind) {
    const Descriptor socket = dial(address());
    send_bytes(socket, hello_frame("job", true, known.client_nonce));
    Handshake handshake = known;
    handshake.server_nonce = receive_frame(socket).value;
    std::string proof = handshake.proof_of(kind == 0 ? Side::server : Side::client);
    if (kind == 1) proof[5] = static_cast<char>(proof[5] ^ 1);
    if (kind == 2) proof.pop_back();
    send_bytes(socket, make_frame(StoreOperation::proof, {}, proof));
    const RawFrame answer = receive_frame(socket);
    EXPECT_EQ(answer.operation, StoreOperation::no_access) << kind;
    EXPECT_EQ(answer.value, std::string(1, static_cast<char>(NoAccess::wrong_secret)));
    EXPECT_EQ(receive_until_closed(socket), "");
  }
  expect_good(ours());
}

TEST_F(StoreAuth, AConnectionThatWasRecordedCannotBeReplayed) {
  serve(ours());
  Accepted peer = shake_hands();
  const std::string set = seal(peer.tags, make_frame(StoreOperation::set, "key", "value"));
  send_bytes(peer.socket, set);
  EXPECT_EQ(receive_frame(peer.socket).operation, StoreOperation::ok);
  const Descriptor replayed = dial(address());
  send_bytes(replayed, peer.sent + set);
  EXPECT_EQ(receive_frame(replayed).operation, StoreOperation::challenge);
  EXPECT_EQ(receive_frame(replayed).operation, StoreOperation::no_access);
  expect_good(ours());
}

TEST_F(StoreAuth, FramesThatWereRepeatedOrChangedEndTheConnection) {
  serve(ours());
  const std::string frame = make_frame(StoreOperation::set, "key", "value");
  for (const std::string what : {"repeated", "changed", "lengthened", "without a tag", "sent back"}) {
    Accepted peer = shake_hands();
    std::string bytes = seal(peer.tags, make_frame(StoreOperation::set, what.substr(0, 2), what));
    if (what == "repeated") {
      send_bytes(peer.socket, bytes);
      EXPECT_EQ(receive_frame(peer.socket).operation, StoreOperation::ok);
      (void)receive_bytes(peer.socket, SecretKey::kTagBytes);
    }
    if (what == "changed") bytes[bytes.size() - SecretKey::kTagBytes - 1] ^= 1;
    if (what == "lengthened") bytes[8] = static_cast<char>(bytes[8] + 1);
    if (what == "without a tag") bytes.resize(bytes.size() - SecretKey::kTagBytes);
    if (what == "sent back") {
      send_bytes(peer.socket, bytes);
      bytes = receive_bytes(peer.socket, StoreFrame::kHeaderBytes + SecretKey::kTagBytes);  // the server's ok
    }
    send_bytes(peer.socket, bytes);
    ::shutdown(peer.socket.get(), SHUT_WR);
    EXPECT_EQ(receive_until_closed(peer.socket), "") << what;
    const bool was_set = what == "repeated" || what == "sent back";
    EXPECT_EQ(server_->get(what.substr(0, 2), Deadline::after(milliseconds(1))).ok(), was_set) << what;
  }
  expect_good(ours());
}

// A server that does not know the secret: what it may say, and what a client makes of it.
class FalseServer : public StoreAuth {
 protected:
  /// `answer` is given the socket after the hello came, with its nonce.
  StoreConnection::Attempt try_it(const std::function<void(const Descriptor&, const std::string&)>& answer) {
    const RawListener listener;
    std::thread liar([&] {
      const Descriptor socket = listener.accept();
      const auto hello = StoreHello::decode(receive_frame(socket).value);
      if (hello) answer(socket, hello->nonce);
      ::shutdown(socket.get(), SHUT_WR);
      (void)receive_until_closed(socket);
    });
    auto attempt = StoreConnection::open(listener.address(), ours(), soon());
    if (attempt.connection) {
      request_ = attempt.connection->request(make_frame(StoreOperation::get, "key", encode_u64(0)), soon());
      attempt.connection.reset();
    }
    liar.join();
    return attempt;
  }
  Result<StoreConnection::Reply> request_ = Status(ErrorCode::internal, "not sent");
};

TEST_F(FalseServer, IsNotBelievedWhenItAcceptsWithoutAsking) {
  const auto attempt = try_it([](const Descriptor& socket, const std::string&) {
    send_bytes(socket, make_frame(StoreOperation::ok, {}, {}));
  });
  EXPECT_EQ(attempt.answer, StoreConnection::Answer::no_access);
  EXPECT_THAT(attempt.why, HasSubstr("did not ask for the job's secret"));
}

TEST_F(FalseServer, IsNotBelievedWhenItCannotProveThatItKnows) {
  for (const bool echo : {false, true}) {
    const auto attempt = try_it([&](const Descriptor& socket, const std::string& nonce) {
      send_bytes(socket, make_frame(StoreOperation::challenge, {}, nonce));
      const std::string proof = receive_frame(socket).value;
      send_bytes(socket, make_frame(StoreOperation::ok, {}, echo ? proof : std::string(16, 'p')));
    });
    EXPECT_EQ(attempt.answer, StoreConnection::Answer::no_access);
    EXPECT_THAT(attempt.why, HasSubstr("could not prove"));
  }
}

TEST_F(FalseServer, CannotAnswerForTheRightOneLater) {
  const auto attempt = try_it([&](const Descriptor& socket, const std::string& nonce) {
    // The handshake is relayed to somebody who knows the secret; what follows is not.
    const Handshake handshake{*ours().secret, nonce, std::string(kNonceBytes, 's'), "job"};
    send_bytes(socket, make_frame(StoreOperation::challenge, {}, handshake.server_nonce));
    (void)receive_frame(socket);
    send_bytes(socket, make_frame(StoreOperation::ok, {}, handshake.proof_of(Side::server)));
    (void)receive_frame(socket);
    send_bytes(socket, make_frame(StoreOperation::ok, {}, "false") + std::string(16, 't'));
  });
  EXPECT_EQ(attempt.answer, StoreConnection::Answer::accepted);
  EXPECT_EQ(request_.status().code(), ErrorCode::corrupt);
  EXPECT_THAT(request_.status().text(), HasSubstr("not sealed with the job's secret"));
}

TEST(StoreHello, AnythingElseIsNotOne) {
  const StoreHello hello{true, std::string(kNonceBytes, 'n'), "job"};
  const auto back = StoreHello::decode(hello.encode());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->job, "job");
  EXPECT_EQ(back->nonce, hello.nonce);
  EXPECT_TRUE(back->has_secret);
  EXPECT_FALSE(StoreHello::decode("").has_value());
  EXPECT_FALSE(StoreHello::decode(hello.encode().substr(0, kNonceBytes)).has_value());
  EXPECT_FALSE(StoreHello::decode("\2" + hello.encode().substr(1)).has_value());
}

}  // namespace
}  // namespace ferrule::rendezvous
