// What every transport must do, whatever moves its bytes. A test program includes this header once and says
// INSTANTIATE_TEST_SUITE_P(<Name>, TransportConformance, ::testing::Values(TransportCase{...}), case_name).
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "transport/ranks.hpp"

namespace ferrule::transport::testing {

struct TransportCase {
  std::string name;
  Connect connect;
  std::string reported_name;  ///< what Transport::name() says
};

inline std::string case_name(const ::testing::TestParamInfo<TransportCase>& info) { return info.param.name; }
inline void PrintTo(const TransportCase& one, std::ostream* out) { *out << one.name; }

class TransportConformance : public ::testing::TestWithParam<TransportCase> {
 protected:
  void run(std::int32_t size, const Body& body) { run_ranks(GetParam().connect, size, body); }
};

TEST_P(TransportConformance, says_who_it_is) {
  run(3, [&](Rank& self) {
    EXPECT_EQ(self.transport->name(), GetParam().reported_name);
    EXPECT_EQ(self.transport->rank(), self.rank);
    EXPECT_EQ(self.transport->size(), 3);
    const Caps caps = self.transport->caps();
    EXPECT_GT(caps.messages_in_flight, 0u);
    EXPECT_GT(caps.best_message_bytes, 0u);
    EXPECT_LE(caps.best_message_bytes, caps.max_message_bytes);
  });
}

TEST_P(TransportConformance, a_world_of_one_connects) {
  run(1, [](Rank& self) { EXPECT_TRUE(self.transport->progress(Deadline::after({})).ok()); });
}

TEST_P(TransportConformance, moves_every_size) {
  run(2, [](Rank& self) {
    const std::size_t best = self.transport->caps().best_message_bytes;
    std::uint32_t sequence = 0;
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{256}, std::size_t{257},
          std::size_t{8192}, best - 1, best, best + 1, 3 * best + 5}) {
      const auto mine = pattern(bytes, static_cast<std::uint32_t>(self.rank) + 7 * sequence);
      const auto theirs = pattern(bytes, static_cast<std::uint32_t>(1 - self.rank) + 7 * sequence);
      Send send = self.send(1 - self.rank, mine);
      send.header.sequence = sequence;
      send.header.chunk = 5;
      Recv recv = self.recv(1 - self.rank, bytes);
      recv.sequence = sequence++;
      Send* const sends[] = {&send};
      Recv* const recvs[] = {&recv};
      ASSERT_TRUE(self.transport->post({sends, recvs}).ok());
      ASSERT_TRUE(self.until_done(recv).ok());
      ASSERT_TRUE(recv.status.ok()) << recv.status.text();
      EXPECT_TRUE(equal(recv.message.payload(), theirs)) << bytes;
      EXPECT_EQ(recv.message.header().chunk, 5u);
      EXPECT_EQ(recv.message.header().source, 1 - self.rank);
      recv.message.release();
      const Status sent = self.until_done(send);
      ASSERT_TRUE(sent.ok()) << sent.text();
      EXPECT_TRUE(send.status.ok()) << send.status.text();
    }
  });
}

TEST_P(TransportConformance, all_pairs_with_many_in_flight) {
  constexpr std::uint32_t kRounds = 20;
  constexpr std::uint32_t kSlices = 6;
  run(4, [](Rank& self) {
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      std::vector<std::vector<std::byte>> payloads;
      std::vector<Send> sends;
      std::vector<Recv> recvs;
      for (std::int32_t peer = 0; peer < self.size; ++peer) {
        for (std::uint32_t slice = 0; peer != self.rank && slice < kSlices; ++slice) {
          const auto seed = [&](std::int32_t from, std::int32_t to) {
            return static_cast<std::uint32_t>(from * 100 + to * 10) + slice + round * 1000;
          };
          payloads.push_back(pattern(3000, seed(self.rank, peer)));
          sends.push_back(self.send(peer, {}));
          sends.back().header.sequence = round;
          sends.back().header.slice = slice;
          recvs.push_back(self.recv(peer, 3000));
          recvs.back().sequence = round;
          recvs.back().slice = slice;
          recvs.back().plan = sends.back().header.plan = 99;
        }
      }
      std::vector<Send*> send_list;
      std::vector<Recv*> recv_list;
      for (std::size_t i = 0; i < sends.size(); ++i) {
        sends[i].payload = payloads[i];
        sends[i].header.payload_bytes = 3000;
        send_list.push_back(&sends[i]);
        recv_list.push_back(&recvs[i]);
      }
      ASSERT_TRUE(self.transport->post({send_list, recv_list}).ok());
      for (Recv& recv : recvs) {
        const Status status = self.until_done(recv);
        ASSERT_TRUE(status.ok()) << status.text();
        ASSERT_TRUE(recv.status.ok()) << recv.status.text();
        const std::uint32_t seed =
            static_cast<std::uint32_t>(recv.peer * 100 + self.rank * 10) + recv.slice + round * 1000;
        EXPECT_TRUE(equal(recv.message.payload(), pattern(3000, seed)));
        recv.message.release();
      }
      for (Send& send : sends) ASSERT_TRUE(self.until_done(send).ok());
      self.transport->retire(round);
    }
  });
}

TEST_P(TransportConformance, early_messages_wait_for_their_receives) {
  run(2, [](Rank& self) {
    constexpr std::uint32_t kMessages = 10;
    if (self.rank == 0) {
      const auto payload = pattern(1000, 1);
      std::vector<Send> sends(kMessages, self.send(1, payload));
      for (std::uint32_t i = 0; i < kMessages; ++i) {
        sends[i].header.ordinal = i;
        ASSERT_TRUE(self.post(sends[i]).ok());
      }
      self.meet();
      for (Send& send : sends) ASSERT_TRUE(self.until_done(send).ok());
      return;
    }
    self.meet();
    for (std::uint32_t i = kMessages; i-- > 0;) {  // the last first
      Recv recv = self.recv(0, 1000);
      recv.ordinal = i;
      ASSERT_TRUE(self.post(recv).ok());
      ASSERT_TRUE(self.until_done(recv).ok());
      ASSERT_TRUE(recv.status.ok()) << recv.status.text();
      EXPECT_EQ(recv.message.header().ordinal, i);
      EXPECT_TRUE(equal(recv.message.payload(), pattern(1000, 1)));
    }
  });
}

// One message from rank 0 to rank 1 that the receive does not accept, then one that it does.
inline void expect_refused(Rank& self, const std::function<void(Send&)>& spoil, ErrorCode code,
                           const std::vector<std::string>& words) {
  const auto payload = pattern(500, 3);
  if (self.rank == 0) {
    Send bad = self.send(1, payload);
    spoil(bad);
    Send good = self.send(1, payload);
    good.header.slice = 1;
    Send* const sends[] = {&bad, &good};
    ASSERT_TRUE(self.transport->post({sends, {}}).ok());
    ASSERT_TRUE(self.until([&] { return bad.done && good.done; }).ok());
    return;
  }
  Recv bad = self.recv(0, 500);
  ASSERT_TRUE(self.post(bad).ok());
  ASSERT_TRUE(self.until_done(bad).ok());
  EXPECT_EQ(bad.status.code(), code) << bad.status.text();
  for (const std::string& word : words) {
    EXPECT_NE(bad.status.text().find(word), std::string::npos) << bad.status.text();
  }
  Recv good = self.recv(0, 500);
  good.slice = 1;
  ASSERT_TRUE(self.post(good).ok());
  ASSERT_TRUE(self.until_done(good).ok());
  EXPECT_TRUE(good.status.ok()) << good.status.text();
}

TEST_P(TransportConformance, another_length_is_a_mismatch_that_shows_both) {
  const auto longer = pattern(501, 3);
  run(2, [&](Rank& self) {
    const auto spoil = [&](Send& send) {
      send.payload = longer;
      send.header.payload_bytes = 501;
    };
    expect_refused(self, spoil, ErrorCode::mismatch, {"rank 0", "host0", "501 bytes", "500 bytes"});
  });
}

TEST_P(TransportConformance, another_plan_is_a_mismatch_that_shows_both) {
  run(2, [](Rank& self) {
    const auto spoil = [](Send& send) { send.header.plan = 0xabc; };
    expect_refused(self, spoil, ErrorCode::mismatch, {"rank 0", "0xabc", "plan 0x0"});
  });
}

TEST_P(TransportConformance, a_payload_checksum_is_verified) {
  run(2, [](Rank& self) {
    const auto spoil = [](Send& send) { send.header.payload_checksum = payload_checksum(send.payload) ^ 2u; };
    expect_refused(self, spoil, ErrorCode::corrupt, {"rank 0", "checksum"});
  });
}

TEST_P(TransportConformance, a_message_of_another_communicator_is_an_error_that_names_it) {
  run(2, [](Rank& self) {
    if (self.rank == 0) {
      const auto payload = pattern(500, 3);
      Send send = self.send(1, payload);
      send.header.communicator = 0xdeadbeef;
      ASSERT_TRUE(self.post(send).ok());
      EXPECT_TRUE(self.until_done(send).ok());
      return;
    }
    const Status status = self.until([] { return false; });
    EXPECT_EQ(status.code(), ErrorCode::corrupt) << status.text();
    EXPECT_NE(status.text().find("0xdeadbeef"), std::string::npos) << status.text();
  });
}

TEST_P(TransportConformance, calls_that_make_no_sense_start_nothing) {
  run(2, [](Rank& self) {
    Recv good = self.recv(1 - self.rank, 8);
    for (const std::int32_t peer : {-1, 2, self.rank}) {
      Recv bad = self.recv(peer, 8);
      Recv* const recvs[] = {&good, &bad};
      EXPECT_EQ(self.transport->post({{}, recvs}).code(), ErrorCode::invalid_argument);
      Send send = self.send(peer, {});
      Send* const sends[] = {&send};
      Recv* const first[] = {&good};
      EXPECT_EQ(self.transport->post({sends, first}).code(), ErrorCode::invalid_argument);
    }
    ASSERT_TRUE(self.post(good).ok()) << "had been started";
    Recv twice = self.recv(1 - self.rank, 8);
    EXPECT_EQ(self.post(twice).code(), ErrorCode::invalid_argument);
    self.transport->cancel(good);
    EXPECT_TRUE(good.done);
    EXPECT_EQ(good.status.code(), ErrorCode::aborted);
  });
}

TEST_P(TransportConformance, a_cancelled_receive_can_be_posted_again) {
  run(2, [](Rank& self) {
    const auto payload = pattern(700, 5);
    if (self.rank == 0) {
      self.meet();
      Send send = self.send(1, payload);
      ASSERT_TRUE(self.post(send).ok());
      ASSERT_TRUE(self.until_done(send).ok());
      return;
    }
    Recv first = self.recv(0, 700);
    ASSERT_TRUE(self.post(first).ok());
    self.transport->cancel(first);
    EXPECT_EQ(first.status.code(), ErrorCode::aborted);
    self.meet();
    Recv second = self.recv(0, 700);
    ASSERT_TRUE(self.post(second).ok());
    ASSERT_TRUE(self.until_done(second).ok());
    EXPECT_TRUE(equal(second.message.payload(), payload));
  });
}

TEST_P(TransportConformance, retired_messages_are_dropped_across_the_wrap) {
  run(2, [](Rank& self) {
    const auto payload = pattern(600, 6);
    const std::uint32_t last = std::numeric_limits<std::uint32_t>::max();
    const std::uint32_t sequences[] = {last - 1, last, 0, 1};
    if (self.rank == 0) {
      std::vector<Send> sends(4, self.send(1, payload));
      for (std::size_t i = 0; i < 4; ++i) {
        sends[i].header.sequence = sequences[i];
        ASSERT_TRUE(self.post(sends[i]).ok());
        if (i == 1) self.meet();
      }
      ASSERT_TRUE(self.until([&] { return sends[0].done && sends[1].done && sends[2].done; }).ok());
      ASSERT_TRUE(self.until_done(sends[3]).ok());
      return;
    }
    self.meet();
    self.transport->retire(0);  // two are queued, one is late
    Recv late = self.recv(0, 600);
    late.sequence = last;
    EXPECT_EQ(self.post(late).code(), ErrorCode::invalid_argument);
    Recv recv = self.recv(0, 600);
    recv.sequence = 1;
    ASSERT_TRUE(self.post(recv).ok());
    ASSERT_TRUE(self.until_done(recv).ok());
    EXPECT_TRUE(recv.status.ok()) << recv.status.text();
    recv.message.release();
  });
}

TEST_P(TransportConformance, control_messages_come_in_order_and_the_handler_may_answer) {
  run(2, [](Rank& self) {
    constexpr std::uint8_t kMessages = 20;
    std::vector<std::uint8_t> seen;
    std::vector<Send> answers(kMessages);
    self.transport->set_control_handler([&](const MessageHeader& header, std::span<const std::byte> payload) {
      EXPECT_EQ(payload.size(), 3u);
      EXPECT_EQ(header.kind, MessageKind::control);
      seen.push_back(header.control_type);
      if (self.rank == 1) {
        Send& answer = answers[header.control_type];
        static const auto text = pattern(3, 1);
        answer = self.send(0, text);
        answer.header.kind = MessageKind::control;
        answer.header.control_type = static_cast<std::uint8_t>(header.control_type + 100);
        EXPECT_TRUE(self.post(answer).ok());
      }
    });
    if (self.rank == 0) {
      const auto text = pattern(3, 0);
      std::vector<Send> sends(kMessages, self.send(1, text));
      for (std::uint8_t i = 0; i < kMessages; ++i) {
        sends[i].header.kind = MessageKind::control;
        sends[i].header.control_type = i;
        ASSERT_TRUE(self.post(sends[i]).ok());
      }
      ASSERT_TRUE(self.until([&] { return seen.size() == kMessages && sends.back().done; }).ok());
    } else {
      ASSERT_TRUE(self.until([&] { return seen.size() == kMessages && answers.back().done; }).ok());
    }
    for (std::uint8_t i = 0; i < kMessages; ++i) EXPECT_EQ(seen[i], self.rank == 0 ? i + 100 : i);
    self.meet();
    self.transport->set_control_handler(nullptr);
  });
}

TEST_P(TransportConformance, wake_ends_a_sleep) {
  run(2, [](Rank& self) {
    for (int round = 0; round < 5; ++round) {
      std::thread waker([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        self.transport->wake();
      });
      EXPECT_TRUE(self.transport->progress(Deadline::after(std::chrono::hours(24))).ok());
      waker.join();
    }
    self.transport->wake();  // while awake: the next progress returns
    EXPECT_TRUE(self.transport->progress(Deadline::never()).ok());
  });
}

TEST_P(TransportConformance, progress_returns_at_its_deadline) {
  run(2, [](Rank& self) {
    EXPECT_TRUE(self.transport->progress(Deadline::after(std::chrono::milliseconds(3))).ok());
    EXPECT_TRUE(self.transport->progress(Deadline(Deadline::Clock::time_point::min())).ok());
    EXPECT_TRUE(self.transport->progress(Deadline::after(std::chrono::nanoseconds(-1))).ok());
  });
}

TEST_P(TransportConformance, counts_headers_and_payloads) {
  run(2, [](Rank& self) {
    const Counters before = self.transport->counters();
    const auto payload = pattern(5000, 2);
    Send send = self.send(1 - self.rank, payload);
    Recv recv = self.recv(1 - self.rank, 5000);
    Send* const sends[] = {&send};
    Recv* const recvs[] = {&recv};
    ASSERT_TRUE(self.transport->post({sends, recvs}).ok());
    ASSERT_TRUE(self.until_done(recv).ok());
    recv.message.release();
    ASSERT_TRUE(self.until_done(send).ok());
    const Counters after = self.transport->counters();
    EXPECT_EQ(after.messages_sent - before.messages_sent, 1u);
    EXPECT_EQ(after.messages_received - before.messages_received, 1u);
    EXPECT_EQ(after.bytes_sent - before.bytes_sent, 5000 + MessageHeader::kBytes);
    EXPECT_EQ(after.bytes_received - before.bytes_received, 5000 + MessageHeader::kBytes);
  });
}

TEST_P(TransportConformance, a_peer_that_left_is_named) {
  run(3, [](Rank& self) {
    const auto payload = pattern(400, 4);
    if (self.rank == 2) {
      Send last = self.send(1, payload);
      ASSERT_TRUE(self.post(last).ok());
      self.meet();  // rank 1 has taken it
      ASSERT_TRUE(self.until_done(last).ok());
      self.transport.reset();
      self.meet();
      return;
    }
    if (self.rank == 0) {
      self.meet();
      self.meet();
      return;
    }
    Recv last = self.recv(2, 400);
    ASSERT_TRUE(self.post(last).ok());
    ASSERT_TRUE(self.until_done(last).ok());
    EXPECT_TRUE(equal(last.message.payload(), payload));
    last.message.release();
    self.meet();
    Recv never = self.recv(2, 400);
    never.ordinal = 1;
    ASSERT_TRUE(self.post(never).ok());
    const Status status = self.until_done(never);
    EXPECT_EQ(status.code(), ErrorCode::peer_lost) << status.text();
    EXPECT_NE(status.text().find("rank 2"), std::string::npos) << status.text();
    if (!never.done) self.transport->cancel(never);
    self.meet();
  });
}

}  // namespace ferrule::transport::testing
