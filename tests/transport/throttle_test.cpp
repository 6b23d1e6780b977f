#include "transport/decorators/throttle.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "transport/ranks.hpp"

namespace ferrule::transport::testing {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using TimePoint = LinkModel::TimePoint;

TEST(LinkSpec, reads_bandwidths_and_latencies) {
  const auto expect = [](std::string_view text, double bits, nanoseconds latency) {
    const auto spec = LinkSpec::parse(text);
    ASSERT_TRUE(spec.ok()) << spec.status().text();
    EXPECT_DOUBLE_EQ(spec->bits_per_second, bits) << text;
    EXPECT_EQ(spec->latency, latency) << text;
    const auto again = LinkSpec::parse(spec->to_string());
    ASSERT_TRUE(again.ok()) << again.status().text();
    EXPECT_DOUBLE_EQ(again->bits_per_second, bits) << spec->to_string();
    EXPECT_EQ(again->latency, latency) << spec->to_string();
  };
  expect("1gbit,1ms", 1e9, milliseconds(1));
  expect("50ms,2.5gbit", 2.5e9, milliseconds(50));
  expect("100mbit", 1e8, nanoseconds(0));
  expect("64kbit", 64e3, nanoseconds(0));
  expect("1.6tbit", 1.6e12, nanoseconds(0));
  expect("250us", 0, microseconds(250));
  expect("0.5us", 0, nanoseconds(500));
  expect("1s", 0, milliseconds(1000));
  EXPECT_DOUBLE_EQ(LinkSpec::parse("1gbit,8ms")->bandwidth_delay_bytes(), 1e6);
}

TEST(LinkSpec, errors_name_the_bad_word_and_the_choices) {
  const auto expect = [](std::string_view text, const std::string& word) {
    const auto spec = LinkSpec::parse(text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_EQ(spec.status().code(), ErrorCode::invalid_argument);
    EXPECT_NE(spec.status().text().find(word), std::string::npos) << spec.status().text();
    EXPECT_NE(spec.status().text().find("kbit, mbit, gbit or tbit"), std::string::npos);
  };
  expect("", "'' is neither");
  expect("fast", "'fast' is neither");
  expect("1gbit,", "'' is neither");
  expect("1gbit,1lightyear", "'1lightyear' is neither");
  expect("1 gbit", "'1 gbit' is neither");
  expect("1GBIT", "'1GBIT' is neither");
  expect("-1ms", "'-1ms' is neither");
  expect("nanms", "'nanms' is neither");
  expect("1e3mbit", "'1e3mbit' is neither");
  expect("1gbit,2gbit", "two bandwidths");
  expect("1ms,2ms", "two latencies");
  expect("0gbit", "'0gbit' is outside");
  expect("99999tbit", "'99999tbit' is outside");
  expect("infgbit", "outside");
  expect("61s", "longer than 60s");
}

// 8 Mbit/s: a byte takes 1 us.
const LinkSpec kSlow{.bits_per_second = 8e6, .latency = milliseconds(5)};

TEST(LinkModel, sends_leave_one_after_the_other) {
  LinkModel link(kSlow);
  const TimePoint start{milliseconds(100)};
  EXPECT_EQ(link.leave(start, 1000), start + milliseconds(1));
  EXPECT_EQ(link.leave(start, 2000), start + milliseconds(3));
  EXPECT_EQ(link.leave(start + milliseconds(2), 1000), start + milliseconds(4));
  EXPECT_EQ(link.leave(start + milliseconds(50), 1000), start + milliseconds(51))
      << "idle time is not saved up";
}

TEST(LinkModel, arrivals_from_many_share_the_receivers_card) {
  LinkModel link(kSlow);
  const TimePoint start{milliseconds(100)};
  const TimePoint first = link.receive(start, 1000);
  EXPECT_EQ(first, start + milliseconds(5)) << "its bits came in while they left the sender";
  EXPECT_EQ(link.receive(start, 1000), first + milliseconds(1));
  EXPECT_EQ(link.receive(start, 1000), first + milliseconds(2));
  EXPECT_EQ(link.receive(start + milliseconds(20), 1000), start + milliseconds(25));
}

TEST(LinkModel, one_stream_arrives_as_it_left) {
  LinkModel sender(kSlow);
  LinkModel receiver(kSlow);
  const TimePoint start{milliseconds(100)};
  for (int i = 1; i <= 1000; ++i) {
    const TimePoint left = sender.leave(start, 500);
    EXPECT_EQ(left, start + microseconds(500 * i));
    EXPECT_EQ(receiver.receive(left, 500), left + milliseconds(5));
  }
}

TEST(LinkModel, without_a_bandwidth_only_latency_counts) {
  LinkModel link({.bits_per_second = 0, .latency = milliseconds(5)});
  const TimePoint start{milliseconds(100)};
  EXPECT_EQ(link.leave(start, 1 << 30), start);
  EXPECT_EQ(link.receive(start, 1 << 30), start + milliseconds(5));
  EXPECT_EQ(link.receive(start, 1), start + milliseconds(5));
}

Connect throttled(const std::string& link) {
  return [link](const Membership& membership, const Exchange& exchange,
                Deadline deadline) -> Result<std::unique_ptr<Transport>> {
    auto inner = find_transport("loopback")->connect(membership, exchange, deadline);
    if (!inner.ok()) return inner.status();
    return throttle(std::move(inner).value(), LinkSpec::parse(link).value());
  };
}

TEST(Throttle, never_beats_the_link) {
  constexpr std::uint32_t kMessages = 20;
  constexpr std::size_t kBytes = 10000;
  std::atomic<std::int64_t> posted_ns{0};
  run_ranks(throttled("80mbit,2ms"), 2, [&](Rank& self) {
    const auto payload = pattern(kBytes, 1);
    const auto now_ns = [] { return Deadline::Clock::now().time_since_epoch().count(); };
    if (self.rank == 0) {
      std::vector<Send> sends(kMessages, self.send(1, payload));
      std::vector<Send*> list;
      for (std::uint32_t i = 0; i < kMessages; ++i) {
        sends[i].header.ordinal = i;
        list.push_back(&sends[i]);
      }
      self.meet();
      posted_ns = now_ns();
      ASSERT_TRUE(self.transport->post({list, {}}).ok());
      ASSERT_TRUE(self.until_done(sends.back()).ok());
      for (const Send& send : sends) EXPECT_TRUE(send.done && send.status.ok());
      return;
    }
    std::vector<Recv> recvs(kMessages);
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      recvs[i] = self.recv(0, kBytes);
      recvs[i].ordinal = i;
      ASSERT_TRUE(self.post(recvs[i]).ok());
    }
    self.meet();
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(self.until_done(recvs[i]).ok());
      ASSERT_TRUE(recvs[i].status.ok()) << recvs[i].status.text();
      EXPECT_TRUE(equal(recvs[i].message.payload(), payload));
      recvs[i].message.release();
      const auto fastest = nanoseconds((i + 1) * (kBytes + MessageHeader::kBytes) * 100) + milliseconds(2);
      EXPECT_GE(now_ns() - posted_ns, fastest.count()) << i;
    }
  });
}

TEST(Throttle, incast_shares_the_receivers_bandwidth) {
  constexpr std::size_t kBytes = 20000;
  std::atomic<std::int64_t> posted_ns{0};
  run_ranks(throttled("80mbit"), 4, [&](Rank& self) {
    const auto payload = pattern(kBytes, 1);
    self.meet();
    if (self.rank != 0) {
      std::int64_t unset = 0;
      posted_ns.compare_exchange_strong(unset, Deadline::Clock::now().time_since_epoch().count());
      Send send = self.send(0, payload);
      ASSERT_TRUE(self.post(send).ok());
      ASSERT_TRUE(self.until_done(send).ok());
      return;
    }
    Recv recvs[3] = {self.recv(1, kBytes), self.recv(2, kBytes), self.recv(3, kBytes)};
    for (Recv& recv : recvs) ASSERT_TRUE(self.post(recv).ok());
    ASSERT_TRUE(self.until([&] { return recvs[0].done && recvs[1].done && recvs[2].done; }).ok());
    const auto fastest = nanoseconds(3 * (kBytes + MessageHeader::kBytes) * 100);
    EXPECT_GE(Deadline::Clock::now().time_since_epoch().count() - posted_ns, fastest.count());
    for (Recv& recv : recvs) recv.message.release();
  });
}

TEST(Throttle, control_messages_take_the_latency_too) {
  std::atomic<std::int64_t> posted_ns{0};
  run_ranks(throttled("3ms"), 2, [&](Rank& self) {
    std::vector<int> seen;
    self.transport->set_control_handler([&](const MessageHeader& header, std::span<const std::byte>) {
      EXPECT_GE(Deadline::Clock::now().time_since_epoch().count() - posted_ns,
                nanoseconds(milliseconds(3)).count());
      seen.push_back(header.control_type);
    });
    if (self.rank == 0) {
      posted_ns = Deadline::Clock::now().time_since_epoch().count();
      for (std::uint8_t i = 0; i < 5; ++i) {
        Send send = self.send(1, {});
        send.header.kind = MessageKind::control;
        send.header.control_type = i;
        ASSERT_TRUE(self.post(send).ok());
        ASSERT_TRUE(self.until_done(send).ok());
      }
    } else {
      ASSERT_TRUE(self.until([&] { return seen.size() == 5; }).ok());
      EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 4}));
    }
    self.meet();
    self.transport->set_control_handler(nullptr);
  });
}

TEST(Throttle, what_has_not_left_can_be_taken_back) {
  run_ranks(throttled("8kbit"), 2, [](Rank& self) {  // a byte takes 1 ms
    const auto payload = pattern(100'000, 1);
    if (self.rank == 0) {
      Send send = self.send(1, payload);
      ASSERT_TRUE(self.post(send).ok());
      ASSERT_TRUE(self.transport->progress(Deadline::after(milliseconds(1))).ok());
      EXPECT_FALSE(send.done);
      self.transport->cancel(send);
      EXPECT_EQ(send.status.code(), ErrorCode::aborted);
      EXPECT_EQ(self.transport->counters().messages_sent, 0u);
    }
    self.meet();
  });
}

TEST(Throttle, a_message_that_is_not_due_can_be_refused) {
  run_ranks(throttled("10s"), 2, [](Rank& self) {
    const auto payload = pattern(1000, 1);
    if (self.rank == 0) {
      Send send = self.send(1, payload);
      ASSERT_TRUE(self.post(send).ok());
      self.meet();
      ASSERT_TRUE(self.until_done(send).ok()) << "cancelling the receive released the payload";
      return;
    }
    Recv recv = self.recv(0, 1000);
    ASSERT_TRUE(self.post(recv).ok());
    ASSERT_TRUE(self.until([&] { return self.transport->counters().messages_received == 1; }).ok());
    EXPECT_FALSE(recv.done) << "ten seconds have not passed";
    self.transport->cancel(recv);
    EXPECT_EQ(recv.status.code(), ErrorCode::aborted);
    self.meet();
  });
}

TEST(Throttle, destroying_it_ends_what_is_pending) {
  run_ranks(throttled("8kbit,1s"), 2, [](Rank& self) {
    const auto payload = pattern(100'000, 1);
    Send send = self.send(1 - self.rank, payload);
    Recv recv = self.recv(1 - self.rank, 100'000);
    ASSERT_TRUE(self.post(send).ok() && self.post(recv).ok());
    self.transport.reset();
    EXPECT_TRUE(send.done && recv.done);
  });
}

TEST(Throttle, enough_messages_fly_to_fill_the_pipe) {
  const auto in_flight = [](const std::string& link) {
    Caps caps;
    run_ranks(throttled(link), 1, [&](Rank& self) { caps = self.transport->caps(); });
    return std::pair(caps.messages_in_flight, caps.best_message_bytes);
  };
  EXPECT_EQ(in_flight("1gbit").first, in_flight("1ms").first) << "without a product: as the inner transport";
  const auto [messages, bytes] = in_flight("1gbit,50ms");
  EXPECT_GE(static_cast<double>(messages) * static_cast<double>(bytes), 2 * 6.25e6);
  EXPECT_LE(in_flight("1000gbit,10s").first, 512u);
}

}  // namespace
}  // namespace ferrule::transport::testing
