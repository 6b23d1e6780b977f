// What is particular to loopback: views of the sender's memory, and what becomes of them when a side gives
// up.
#include "transport/loopback/loopback.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "transport/ranks.hpp"

namespace ferrule::transport::testing {
namespace {

void run_loopback(std::int32_t size, const Body& body) {
  run_ranks(find_transport("loopback")->connect, size, body);
}

Result<std::unique_ptr<Transport>> connect(std::int32_t rank, std::int32_t size, std::uint64_t communicator,
                                           Deadline deadline) {
  return find_transport("loopback")->connect(membership(rank, size, communicator), nullptr, deadline);
}

TEST(Loopback, is_registered_as_of_one_process) {
  ASSERT_NE(find_transport("loopback"), nullptr);
  EXPECT_FALSE(find_transport("loopback")->cross_process);
  EXPECT_EQ(find_transport("pigeon"), nullptr);
  EXPECT_EQ(transports().front().name, "loopback");
}

TEST(Loopback, a_receive_is_a_view_of_the_senders_memory_and_its_release_ends_the_send) {
  std::atomic<const std::byte*> sent{nullptr};
  run_loopback(2, [&](Rank& self) {
    const auto payload = pattern(5000, 1);
    if (self.rank == 0) {
      sent = payload.data();
      Send send = self.send(1, payload);
      ASSERT_TRUE(self.post(send).ok());
      self.meet();  // the peer holds the view
      EXPECT_FALSE(send.done);
      self.meet();  // and releases it
      ASSERT_TRUE(self.until_done(send).ok());
      EXPECT_TRUE(send.status.ok());
      return;
    }
    Recv recv = self.recv(0, 5000);
    ASSERT_TRUE(self.post(recv).ok());
    ASSERT_TRUE(self.until_done(recv).ok());
    EXPECT_EQ(recv.message.payload().data(), sent);
    EXPECT_GT(recv.message.arrived().time_since_epoch().count(), 0);
    self.meet();
    self.meet();
    recv.message.release();
  });
}

TEST(Loopback, small_payloads_are_copied_and_their_sends_done_at_once) {
  run_loopback(2, [](Rank& self) {
    if (self.rank == 0) {
      std::vector<std::byte> payload = pattern(loopback::kCopyBytes, 1);
      Send send = self.send(1, payload);
      ASSERT_TRUE(self.post(send).ok());
      EXPECT_TRUE(send.done);
      payload.assign(payload.size(), std::byte{0});
      self.meet();
      return;
    }
    self.meet();
    Recv recv = self.recv(0, loopback::kCopyBytes);
    ASSERT_TRUE(self.post(recv).ok());
    ASSERT_TRUE(self.until_done(recv).ok());
    EXPECT_TRUE(equal(recv.message.payload(), pattern(loopback::kCopyBytes, 1)));
  });
}

// The message is taken back wherever it is: in the mailbox, or queued as early.
TEST(Loopback, a_cancelled_send_is_never_seen) {
  for (const bool peer_progresses : {false, true}) {
    run_loopback(2, [&](Rank& self) {
      if (self.rank == 0) {
        std::vector<std::byte> payload = pattern(5000, 1);
        Send send = self.send(1, payload);
        ASSERT_TRUE(self.post(send).ok());
        self.meet_asleep();
        self.transport->cancel(send);
        EXPECT_TRUE(send.done);
        EXPECT_EQ(send.status.code(), ErrorCode::aborted);
        payload = pattern(5000, 2);
        Send again = self.send(1, payload);
        ASSERT_TRUE(self.post(again).ok());
        self.meet_asleep();
        ASSERT_TRUE(self.until_done(again).ok());
        EXPECT_TRUE(again.status.ok());
        return;
      }
      if (peer_progresses) {
        Send probe = self.send(0, {});
        ASSERT_TRUE(self.post(probe).ok());
        ASSERT_TRUE(self.transport->progress(Deadline::after({})).ok());
      }
      self.meet_asleep();
      self.meet_asleep();
      Recv recv = self.recv(0, 5000);
      ASSERT_TRUE(self.post(recv).ok());
      ASSERT_TRUE(self.until_done(recv).ok());
      EXPECT_TRUE(recv.status.ok()) << recv.status.text();
      EXPECT_TRUE(equal(recv.message.payload(), pattern(5000, 2)));
    });
  }
}

TEST(Loopback, cancel_waits_while_the_peer_reads_the_payload) {
  for (const bool by_destruction : {false, true}) {
    std::atomic<bool> reading{false};
    run_loopback(2, [&](Rank& self) {
      if (self.rank == 0) {
        std::vector<std::byte> payload = pattern(5000, 1);
        Send send = self.send(1, payload);
        ASSERT_TRUE(self.post(send).ok());
        self.meet_asleep();
        if (by_destruction) {
          self.transport.reset();
        } else {
          self.transport->cancel(send);
        }
        EXPECT_FALSE(reading) << "the payload was given up while the peer was reading it";
        EXPECT_TRUE(send.done);
        EXPECT_TRUE(send.status.ok()) << send.status.text();
        payload.assign(payload.size(), std::byte{0});
        return;
      }
      Recv recv = self.recv(0, 5000);
      ASSERT_TRUE(self.post(recv).ok());
      ASSERT_TRUE(self.until_done(recv).ok());
      reading = true;
      self.meet_asleep();
      for (int i = 0; i < 20; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ASSERT_TRUE(equal(recv.message.payload(), pattern(5000, 1)));
      }
      reading = false;
      recv.message.release();
    });
  }
}

TEST(Loopback, sends_to_a_rank_that_went_fail_and_name_it) {
  run_loopback(2, [](Rank& self) {
    const auto payload = pattern(5000, 1);
    if (self.rank == 0) {
      Send before = self.send(1, payload);
      ASSERT_TRUE(self.post(before).ok());
      self.meet_asleep();  // it goes without having read this one
      self.meet_asleep();
      ASSERT_TRUE(self.until_done(before).ok());
      EXPECT_EQ(before.status.code(), ErrorCode::peer_lost);
      Send after = self.send(1, payload);
      ASSERT_TRUE(self.post(after).ok());
      ASSERT_TRUE(after.done);
      EXPECT_EQ(after.status.code(), ErrorCode::peer_lost);
      EXPECT_NE(after.status.text().find("rank 1 (host host1, pid 1001)"), std::string::npos)
          << after.status.text();
      return;
    }
    self.meet_asleep();
    ASSERT_TRUE(self.transport->progress(Deadline::after({})).ok());
    self.transport.reset();
    self.meet_asleep();
  });
}

TEST(Loopback, what_a_rank_had_sent_before_it_went_still_arrives) {
  run_loopback(2, [](Rank& self) {
    if (self.rank == 0) {
      const auto payload = pattern(100, 1);
      for (std::uint32_t i = 0; i < 3; ++i) {
        Send send = self.send(1, payload);
        send.header.ordinal = i;
        ASSERT_TRUE(self.post(send).ok());
        ASSERT_TRUE(send.done);
      }
      self.transport.reset();
      self.meet_asleep();
      return;
    }
    self.meet_asleep();
    std::vector<Recv> recvs(4);
    for (std::uint32_t i = 0; i < 4; ++i) {
      recvs[i] = self.recv(0, 100);
      recvs[i].ordinal = i;
      ASSERT_TRUE(self.post(recvs[i]).ok());
    }
    EXPECT_EQ(self.until_done(recvs[3]).code(), ErrorCode::peer_lost);
    for (std::uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(recvs[i].done && recvs[i].status.ok());
    EXPECT_EQ(recvs[3].status.code(), ErrorCode::peer_lost);
  });
}

TEST(Loopback, views_outlive_the_transports) {
  const std::uint64_t communicator = new_communicator();
  const auto payload = pattern(100, 1);
  Recv recv;
  {
    std::unique_ptr<Transport> one;
    std::thread other([&] {
      auto zero = connect(0, 2, communicator, soon());
      ASSERT_TRUE(zero.ok());
      Rank self{std::move(zero).value(), 0, 2, communicator, nullptr};
      Send send = self.send(1, payload);
      ASSERT_TRUE(self.post(send).ok());
    });
    auto made = connect(1, 2, communicator, soon());
    ASSERT_TRUE(made.ok());
    one = std::move(made).value();
    other.join();
    recv.peer = 0;
    recv.bytes = 100;
    Recv* const recvs[] = {&recv};
    ASSERT_TRUE(one->post({{}, recvs}).ok());
    ASSERT_TRUE(one->progress(soon()).ok());
  }
  ASSERT_TRUE(recv.done);
  EXPECT_TRUE(equal(recv.message.payload(), payload));
  recv.message.release();
}

TEST(Loopback, connecting_names_the_missing_ranks) {
  const std::uint64_t communicator = new_communicator();
  const auto made = connect(1, 4, communicator, Deadline::after(std::chrono::milliseconds(20)));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), ErrorCode::timeout);
  EXPECT_NE(made.status().text().find("waited for rank 0, 2, 3"), std::string::npos) << made.status().text();
  // Having given up, it may try again under the same identity.
  EXPECT_EQ(connect(1, 4, communicator, Deadline::after({})).status().code(), ErrorCode::timeout);
}

TEST(Loopback, ranks_that_disagree_on_the_size_or_take_the_same_place_are_told) {
  const std::uint64_t communicator = new_communicator();
  std::thread waiting([&] {
    // The other thread takes this place for an instant, now and then.
    Status status(ErrorCode::invalid_argument, "");
    while (status.code() == ErrorCode::invalid_argument)
      status = connect(0, 2, communicator, soon()).status();
    EXPECT_TRUE(status.ok()) << status.text();
  });
  const auto code_of = [&](std::int32_t rank, std::int32_t size) {
    const auto made = connect(rank, size, communicator, Deadline::after({}));
    return made.status().code();
  };
  const Deadline deadline = soon();
  while (code_of(0, 2) != ErrorCode::invalid_argument && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(code_of(1, 3), ErrorCode::mismatch);
  EXPECT_TRUE(connect(1, 2, communicator, soon()).ok());
  waiting.join();
}

// Random traffic between eight threads, with cancelled sends and receives: for the sanitizers, and for
// losses.
TEST(Loopback, survives_a_storm) {
  constexpr std::uint32_t kRounds = 150;
  run_loopback(8, [](Rank& self) {
    std::mt19937 random(static_cast<std::uint32_t>(self.rank));
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const std::int32_t to = (self.rank + 1 + static_cast<std::int32_t>(round) % 7) % 8;
      const std::int32_t from = (self.rank + 7 - static_cast<std::int32_t>(round) % 7) % 8;
      const std::size_t bytes = round % 3 == 0 ? 64 : 2000;
      const auto payload = pattern(bytes, round);
      Send extra = self.send(to, payload);  // may be seen or not: nobody waits for it
      extra.header.sequence = round;
      extra.header.ordinal = 1;
      Send send = self.send(to, payload);
      send.header.sequence = round;
      Recv recv = self.recv(from, bytes);
      recv.sequence = round;
      Recv idle = self.recv(from, bytes);
      idle.sequence = round;
      idle.ordinal = 2;
      Send* const sends[] = {&extra, &send};
      Recv* const recvs[] = {&idle, &recv};
      ASSERT_TRUE(self.transport->post({sends, recvs}).ok());
      ASSERT_TRUE(self.until_done(recv).ok());
      ASSERT_TRUE(recv.status.ok()) << recv.status.text();
      ASSERT_TRUE(equal(recv.message.payload(), payload));
      recv.message.release();
      if (random() % 2 == 0) self.transport->wake();
      self.transport->cancel(extra);
      self.transport->cancel(idle);
      ASSERT_TRUE(extra.done && idle.done);
      ASSERT_TRUE(self.until_done(send).ok());
      self.transport->retire(round);
    }
  });
}

}  // namespace
}  // namespace ferrule::transport::testing
