#include "transport/inbox.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "transport/ranks.hpp"

namespace ferrule::transport::testing {
namespace {

constexpr std::uint64_t kCommunicator = 0x77;

/// Counts what the inbox gives back, so that no message can be lost or released twice.
struct Arrival {
  int releases = 0;
  bool withdrawn = false;
  std::vector<std::byte> payload;
};

void release(void* /*owner*/, void* handle) { ++static_cast<Arrival*>(handle)->releases; }
bool claim(void* handle) { return !static_cast<Arrival*>(handle)->withdrawn; }

class InboxTest : public ::testing::Test {
 protected:
  explicit InboxTest(InboxLimits limits = {}) : inbox_(membership(0, 4, kCommunicator), limits, claim) {}

  static MessageHeader header(std::int32_t source, std::uint32_t sequence, std::uint32_t slice = 0) {
    MessageHeader made;
    made.communicator = kCommunicator;
    made.source = source;
    made.sequence = sequence;
    made.slice = slice;
    made.plan = 5;
    made.payload_bytes = 16;
    return made;
  }
  Received message(const MessageHeader& of, std::size_t bytes = 16) {
    arrivals_.push_back(std::make_unique<Arrival>());
    arrivals_.back()->payload = pattern(bytes, of.sequence);
    return {of, arrivals_.back()->payload, release, nullptr, arrivals_.back().get()};
  }
  static Recv recv(std::int32_t peer, std::uint32_t sequence, std::uint32_t slice = 0) {
    Recv made;
    made.peer = peer;
    made.sequence = sequence;
    made.slice = slice;
    made.plan = 5;
    made.bytes = 16;
    return made;
  }
  Status post(Recv& one) {
    Recv* const list[] = {&one};
    FERRULE_RETURN_IF_ERROR(inbox_.check(list));
    inbox_.post(one);
    return {};
  }
  void expect_rejected(const MessageHeader& of, std::int32_t from, const std::vector<std::string>& words,
                       std::size_t bytes = 16) {
    const Status status = inbox_.deliver(message(of, bytes), from);
    EXPECT_EQ(status.code(), ErrorCode::corrupt) << status.text();
    for (const std::string& word : words) {
      EXPECT_NE(status.text().find(word), std::string::npos) << status.text() << "\nlacks: " << word;
    }
    EXPECT_EQ(arrivals_.back()->releases, 1);
  }

  std::vector<std::unique_ptr<Arrival>> arrivals_;  // outlives the inbox
  Inbox inbox_;
};

TEST_F(InboxTest, matches_whichever_comes_first) {
  Recv first = recv(2, 7);
  ASSERT_TRUE(post(first).ok());
  EXPECT_EQ(inbox_.posted(2), 1u);
  ASSERT_TRUE(inbox_.deliver(message(header(2, 7))).ok());
  EXPECT_TRUE(first.done && first.status.ok());
  EXPECT_EQ(inbox_.posted(2), 0u);

  ASSERT_TRUE(inbox_.deliver(message(header(3, 8))).ok());
  EXPECT_EQ(inbox_.queued(), 1u);
  Recv second = recv(3, 8);
  ASSERT_TRUE(post(second).ok());
  EXPECT_TRUE(second.done && second.status.ok());
  EXPECT_EQ(inbox_.queued(), 0u);
  EXPECT_EQ(inbox_.ended(), 2u);
  EXPECT_EQ(arrivals_[0]->releases + arrivals_[1]->releases, 0);
  first.message.release();
  second.message.release();
  EXPECT_EQ(arrivals_[0]->releases + arrivals_[1]->releases, 2);
}

TEST_F(InboxTest, every_part_of_the_key_counts) {
  Recv posted = recv(2, 7, 1);
  posted.ordinal = 3;
  ASSERT_TRUE(post(posted).ok());
  for (int part = 0; part < 4; ++part) {
    MessageHeader other = header(part == 0 ? 1 : 2, part == 1 ? 8 : 7, part == 2 ? 2 : 1);
    other.ordinal = part == 3 ? 2 : 3;
    ASSERT_TRUE(inbox_.deliver(message(other)).ok());
    EXPECT_FALSE(posted.done) << part;
  }
  EXPECT_EQ(inbox_.queued(), 4u);
}

TEST_F(InboxTest, hostile_headers_are_named) {
  MessageHeader bad = header(2, 1);
  bad.communicator = 0xbad;
  expect_rejected(bad, 2, {"0xbad", "0x77", "rank 2"});
  for (const std::int32_t source : {-1, 0, 4, std::numeric_limits<std::int32_t>::min()}) {
    expect_rejected(header(source, 1), -1, {"rank " + std::to_string(source), "4 ranks"});
  }
  expect_rejected(header(2, 1), 3, {"connection to rank 3 (host host3", "rank 2"});
  expect_rejected(header(2, 1), 2, {"rank 2 (host host2", "16 bytes", "9 arrived"}, 9);
  bad = header(2, 1);
  bad.payload_bytes = 0xffffffffu;
  expect_rejected(bad, 2, {"4294967295 bytes", "16 arrived"});
  EXPECT_EQ(inbox_.queued(), 0u);
}

TEST_F(InboxTest, a_message_that_comes_twice_is_an_error) {
  ASSERT_TRUE(inbox_.deliver(message(header(2, 1))).ok());
  expect_rejected(header(2, 1), 2, {"rank 2", "sequence 1", "twice"});
}

TEST_F(InboxTest, disagreement_ends_the_receive_and_shows_both_values) {
  Recv first = recv(1, 1);
  first.bytes = 17;
  ASSERT_TRUE(post(first).ok());
  ASSERT_TRUE(inbox_.deliver(message(header(1, 1))).ok());
  EXPECT_EQ(first.status.code(), ErrorCode::mismatch);
  EXPECT_NE(first.status.text().find("16 bytes"), std::string::npos) << first.status.text();
  EXPECT_NE(first.status.text().find("17 bytes"), std::string::npos) << first.status.text();
  Recv second = recv(1, 2);
  second.plan = 0x1234;
  ASSERT_TRUE(inbox_.deliver(message(header(1, 2))).ok());
  ASSERT_TRUE(post(second).ok());
  EXPECT_EQ(second.status.code(), ErrorCode::mismatch);
  EXPECT_NE(second.status.text().find("0x1234"), std::string::npos) << second.status.text();
  EXPECT_NE(second.status.text().find("plan 0x5"), std::string::npos) << second.status.text();
  EXPECT_TRUE(second.message.payload().empty());
  EXPECT_EQ(arrivals_[0]->releases + arrivals_[1]->releases, 2);
}

TEST_F(InboxTest, payload_checksums_are_verified_when_there_are_any) {
  MessageHeader good = header(1, 1);
  good.payload_checksum = payload_checksum(pattern(16, 1));
  MessageHeader bad = header(1, 2);
  bad.payload_checksum = good.payload_checksum;
  Recv first = recv(1, 1);
  Recv second = recv(1, 2);
  ASSERT_TRUE(post(first).ok() && post(second).ok());
  ASSERT_TRUE(inbox_.deliver(message(good)).ok() && inbox_.deliver(message(bad)).ok());
  EXPECT_TRUE(first.status.ok()) << first.status.text();
  EXPECT_EQ(second.status.code(), ErrorCode::corrupt);
}

TEST_F(InboxTest, retire_drops_queued_and_late_messages) {
  for (const std::uint32_t sequence : {1u, 2u, 3u}) {
    ASSERT_TRUE(inbox_.deliver(message(header(1, sequence))).ok());
  }
  inbox_.retire(2);
  EXPECT_EQ(inbox_.queued(), 1u);
  EXPECT_EQ(arrivals_[0]->releases + arrivals_[1]->releases, 2);
  ASSERT_TRUE(inbox_.deliver(message(header(3, 2))).ok());
  EXPECT_EQ(arrivals_.back()->releases, 1);
  Recv late = recv(1, 2);
  const Status status = post(late);
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_NE(status.text().find("sequence 2"), std::string::npos) << status.text();
  inbox_.retire(1);  // going back changes nothing
  EXPECT_FALSE(post(late).ok());
  Recv live = recv(1, 3);
  ASSERT_TRUE(post(live).ok());
  EXPECT_TRUE(live.done);
}

TEST_F(InboxTest, sequences_wrap) {
  constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();
  // Without a retirement nothing is retired, wherever the sequences start.
  for (const std::uint32_t sequence : {kLast - 1, kLast, 0u, 1u, kLast / 2 + 7}) {
    ASSERT_TRUE(inbox_.deliver(message(header(1, sequence))).ok());
  }
  EXPECT_EQ(inbox_.queued(), 5u);
  inbox_.retire(kLast);
  // kLast - 1 and kLast go. So does kLast / 2 + 7: on the circle that is within 2^31 before kLast.
  EXPECT_EQ(inbox_.queued(), 2u);
  inbox_.retire(0);
  EXPECT_EQ(inbox_.queued(), 1u);
  Recv old = recv(1, kLast);
  EXPECT_FALSE(post(old).ok());
  Recv next = recv(1, 1);
  ASSERT_TRUE(post(next).ok());
  EXPECT_TRUE(next.done);
}

TEST_F(InboxTest, cancel_takes_back_a_posted_receive_only) {
  Recv never = recv(1, 9);
  inbox_.cancel(never);
  EXPECT_FALSE(never.done);
  Recv posted = recv(1, 9);
  ASSERT_TRUE(post(posted).ok());
  inbox_.cancel(never);  // same key, another receive
  EXPECT_FALSE(posted.done);
  inbox_.cancel(posted);
  EXPECT_EQ(posted.status.code(), ErrorCode::aborted);
  EXPECT_EQ(inbox_.posted(1), 0u);
  ASSERT_TRUE(inbox_.deliver(message(header(1, 9))).ok());
  EXPECT_EQ(inbox_.queued(), 1u);
}

TEST_F(InboxTest, the_same_receive_twice_in_a_batch_ends_the_second) {
  Recv first = recv(1, 9);
  Recv second = recv(1, 9);
  Recv* const both[] = {&first, &second};
  ASSERT_TRUE(inbox_.check(both).ok());
  inbox_.post(first);
  inbox_.post(second);
  EXPECT_FALSE(first.done);
  EXPECT_EQ(second.status.code(), ErrorCode::invalid_argument);
  inbox_.cancel(first);
  EXPECT_TRUE(first.done);
}

TEST_F(InboxTest, fail_ends_the_receives_of_one_peer) {
  Recv from_one[] = {recv(1, 1), recv(1, 2), recv(1, 3)};
  Recv from_two = recv(2, 1);
  for (Recv& one : from_one) ASSERT_TRUE(post(one).ok());
  ASSERT_TRUE(post(from_two).ok());
  EXPECT_EQ(inbox_.fail(1, Status(ErrorCode::peer_lost, "rank 1 is gone")), 3u);
  for (Recv& one : from_one) EXPECT_EQ(one.status.code(), ErrorCode::peer_lost);
  EXPECT_FALSE(from_two.done);
  EXPECT_EQ(inbox_.fail(1, Status(ErrorCode::peer_lost, "")), 0u);
}

TEST_F(InboxTest, withdrawn_messages_are_dropped_and_the_receive_waits_on) {
  ASSERT_TRUE(inbox_.deliver(message(header(1, 1))).ok());
  arrivals_[0]->withdrawn = true;
  Recv waiting = recv(1, 1);
  ASSERT_TRUE(post(waiting).ok());
  EXPECT_FALSE(waiting.done);
  EXPECT_EQ(arrivals_[0]->releases, 1);
  Received second = message(header(1, 1));
  arrivals_[1]->withdrawn = true;  // taken back on its way
  ASSERT_TRUE(inbox_.deliver(std::move(second)).ok());
  EXPECT_FALSE(waiting.done);
  ASSERT_TRUE(inbox_.deliver(message(header(1, 1))).ok());
  EXPECT_TRUE(waiting.done && waiting.status.ok());

  ASSERT_TRUE(inbox_.deliver(message(header(1, 2))).ok());
  arrivals_[3]->withdrawn = true;  // and sent again
  EXPECT_TRUE(inbox_.deliver(message(header(1, 2))).ok());
}

TEST_F(InboxTest, control_messages_wait_for_a_handler_and_keep_their_order) {
  for (std::uint8_t i = 0; i < 3; ++i) {
    MessageHeader control = header(1, 0);
    control.kind = MessageKind::control;
    control.control_type = i;
    ASSERT_TRUE(inbox_.deliver(message(control)).ok());
  }
  EXPECT_EQ(inbox_.dispatch_control(), 0u);
  EXPECT_EQ(inbox_.queued(), 3u);
  std::vector<int> seen;
  inbox_.set_control_handler([&](const MessageHeader& of, std::span<const std::byte> payload) {
    EXPECT_EQ(payload.size(), 16u);
    seen.push_back(of.control_type);
    if (of.control_type == 0) {  // arrives while one is handled
      MessageHeader more = of;
      more.control_type = 9;
      EXPECT_TRUE(inbox_.deliver(message(more)).ok());
    }
  });
  EXPECT_EQ(inbox_.dispatch_control(), 3u);
  EXPECT_EQ(inbox_.dispatch_control(), 1u);
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 9}));
  for (const auto& arrival : arrivals_) EXPECT_EQ(arrival->releases, 1);
}

class SmallInboxTest : public InboxTest {
 protected:
  SmallInboxTest() : InboxTest({.messages = 3, .bytes = 40}) {}
};

TEST_F(SmallInboxTest, a_flood_is_an_error_that_names_the_peer) {
  for (std::uint32_t i = 0; i < 2; ++i) ASSERT_TRUE(inbox_.deliver(message(header(2, i))).ok());
  expect_rejected(header(2, 9), 2, {"rank 2 (host host2", "too far ahead", "2 messages of 32 bytes"});
  ASSERT_TRUE(inbox_.deliver(message(header(1, 0))).ok()) << "another peer has its own room";
  MessageHeader empty = header(3, 0);
  empty.payload_bytes = 0;
  for (; empty.sequence < 3; ++empty.sequence) ASSERT_TRUE(inbox_.deliver(message(empty, 0)).ok());
  expect_rejected(empty, 3, {"rank 3", "3 messages"}, 0);
  Recv taken = recv(2, 0);
  ASSERT_TRUE(post(taken).ok());
  EXPECT_TRUE(inbox_.deliver(message(header(2, 9))).ok()) << "room again";
}

TEST_F(SmallInboxTest, one_message_is_always_taken_however_long) {
  MessageHeader longer = header(1, 0);
  longer.payload_bytes = 500;
  EXPECT_TRUE(inbox_.deliver(message(longer, 500)).ok());
}

// Random operations against a model of a few lines.
TEST(InboxModel, behaves_like_a_map) {
  std::mt19937 random(3);
  std::vector<std::unique_ptr<Arrival>> arrivals;
  std::vector<std::unique_ptr<Recv>> recvs;
  {
    Inbox inbox(membership(0, 4, kCommunicator));
    std::map<std::pair<std::int32_t, std::uint32_t>, Recv*> posted;
    std::set<std::pair<std::int32_t, std::uint32_t>> early;
    for (int round = 0; round < 20000; ++round) {
      const auto peer = static_cast<std::int32_t>(1 + random() % 3);
      const auto slice = static_cast<std::uint32_t>(random() % 300);
      const std::pair key(peer, slice);
      if (random() % 2 == 0 && !early.contains(key)) {
        MessageHeader header;
        header.communicator = kCommunicator;
        header.source = peer;
        header.slice = slice;
        arrivals.push_back(std::make_unique<Arrival>());
        ASSERT_TRUE(inbox.deliver({header, {}, release, nullptr, arrivals.back().get()}, peer).ok());
        if (posted.contains(key)) {
          EXPECT_TRUE(posted[key]->done);
          posted[key]->message.release();
          posted.erase(key);
        } else {
          early.insert(key);
        }
      } else if (!posted.contains(key)) {
        recvs.push_back(std::make_unique<Recv>());
        Recv& recv = *recvs.back();
        recv.peer = peer;
        recv.slice = slice;
        inbox.post(recv);
        EXPECT_EQ(recv.done, early.erase(key) == 1);
        recv.message.release();
        if (!recv.done) posted[key] = &recv;
      }
      EXPECT_EQ(inbox.queued(), early.size());
    }
    inbox.retire(0);
    EXPECT_EQ(inbox.queued(), 0u);
  }
  for (const auto& arrival : arrivals) EXPECT_EQ(arrival->releases, 1);
}

}  // namespace
}  // namespace ferrule::transport::testing
