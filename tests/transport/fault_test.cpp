// Each planted fault, and what its victim sees of it.
#include "transport/decorators/fault.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <string>
#include <vector>

#include "transport/ranks.hpp"

namespace ferrule::transport::testing {
namespace {

constexpr std::size_t kBytes = 1000;

TEST(FaultPlan, reads_every_kind_and_key) {
  const auto plan = FaultPlan::parse(
      "drop:nth=5;delay:nth=3,ms=70,rank=2;corrupt_header:nth=2;corrupt_payload:nth=9,seed=4;"
      "truncate:nth=1,bytes=7;die:nth=12");
  ASSERT_TRUE(plan.ok()) << plan.status().text();
  ASSERT_EQ(plan->faults.size(), 6u);
  const FaultKind kinds[] = {FaultKind::drop,           FaultKind::delay,
                             FaultKind::corrupt_header, FaultKind::corrupt_payload,
                             FaultKind::truncate,       FaultKind::die};
  const std::uint64_t nths[] = {5, 3, 2, 9, 1, 12};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(plan->faults[i].kind, kinds[i]);
    EXPECT_EQ(plan->faults[i].nth, nths[i]);
    EXPECT_EQ(plan->faults[i].rank, i == 1 ? 2 : -1);
  }
  EXPECT_EQ(plan->faults[1].delay, std::chrono::milliseconds(70));
  EXPECT_EQ(plan->faults[3].seed, 4u);
  EXPECT_EQ(plan->faults[4].bytes, 7u);
}

TEST(FaultPlan, errors_name_the_bad_word_and_the_choices) {
  const auto expect = [](std::string_view text, const std::string& first, const std::string& second) {
    const auto plan = FaultPlan::parse(text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_EQ(plan.status().code(), ErrorCode::invalid_argument);
    EXPECT_NE(plan.status().text().find(first), std::string::npos) << plan.status().text();
    EXPECT_NE(plan.status().text().find(second), std::string::npos) << plan.status().text();
  };
  expect("", "'' is no fault", "drop, delay, corrupt_header, corrupt_payload, truncate, die");
  expect("explode:nth=1", "'explode' is no fault", "die");
  expect("drop:nth=1;", "'' is no fault", "drop");
  expect("drop", "'drop'", "no nth=N");
  expect("drop:rank=1", "'drop:rank=1'", "no nth=N");
  expect("drop:nth", "'nth'", "key=value");
  expect("drop:nth=0", "nth", "counts from 1");
  expect("drop:nth=x", "'nth'", "whole number");
  expect("drop:nth=-1", "'nth'", "whole number");
  expect("drop:nth=99999999999999999999999", "'nth'", "whole number");
  expect("drop:nth=1,ms=5", "'ms' is no key here", "ms for delay");
  expect("truncate:nth=1,bytes=0", "bytes", "at least 1");
  expect("delay:nth=1,ms=99999999999", "ms", "hour");
  expect("drop:nth=1,rank=4294967295", "rank", "no such rank");
}

Connect faulty(const std::string& plan) {
  return [plan](const Membership& membership, const Exchange& exchange,
                Deadline deadline) -> Result<std::unique_ptr<Transport>> {
    auto inner = find_transport("loopback")->connect(membership, exchange, deadline);
    if (!inner.ok()) return inner.status();
    return inject(std::move(inner).value(), FaultPlan::parse(plan).value());
  };
}

/// What rank 1 sees when rank 0 sends it `kMessages` messages one by one, with faults on rank 0.
constexpr std::uint32_t kMessages = 4;

struct Seen {
  Status progress;           ///< of the receiver, when it gave up
  std::vector<Status> ends;  ///< of each receive that is done
  std::vector<std::vector<std::byte>> payloads;
};

Seen receive_all(Rank& self) {
  Seen seen;
  std::vector<Recv> recvs(kMessages);
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    recvs[i] = self.recv(0, kBytes);
    recvs[i].ordinal = i;
    EXPECT_TRUE(self.post(recvs[i]).ok());
  }
  // The last message is sent after all faults: what is not there with it will never come.
  seen.progress = self.until_done(recvs.back());
  for (Recv& recv : recvs) {
    if (!recv.done) self.transport->cancel(recv);
    seen.ends.push_back(recv.status);
    const auto payload = recv.message.payload();
    seen.payloads.emplace_back(payload.begin(), payload.end());
    recv.message.release();
  }
  return seen;
}

Seen run_plan(const std::string& plan, bool checksums = false) {
  Seen seen;
  run_ranks(faulty(plan), 2, [&](Rank& self) {
    if (self.rank == 1) {
      seen = receive_all(self);
      self.meet();
      return;
    }
    const auto payload = pattern(kBytes, 1);
    std::vector<Send> sends(kMessages, self.send(1, payload));
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      sends[i].header.ordinal = i;
      if (checksums) sends[i].header.payload_checksum = payload_checksum(payload);
      ASSERT_TRUE(self.post(sends[i]).ok());
    }
    self.meet();  // the receiver has seen enough
    for (Send& send : sends) {
      self.transport->cancel(send);
      EXPECT_TRUE(send.done);
    }
    EXPECT_EQ(payload, pattern(kBytes, 1)) << "the sender's memory was damaged";
  });
  return seen;
}

void expect_sound_but(const Seen& seen, std::size_t spoilt) {
  for (std::size_t i = 0; i < kMessages; ++i) {
    if (i == spoilt) continue;
    EXPECT_TRUE(seen.ends[i].ok()) << i << ": " << seen.ends[i].text();
    EXPECT_EQ(seen.payloads[i], pattern(kBytes, 1)) << i;
  }
}

TEST(Fault, no_fault_no_effect) { expect_sound_but(run_plan("drop:nth=2,rank=1;die:nth=99"), kMessages); }

TEST(Fault, a_dropped_message_never_comes) {
  const Seen seen = run_plan("drop:nth=2");
  expect_sound_but(seen, 1);
  EXPECT_EQ(seen.ends[1].code(), ErrorCode::aborted) << "it was still waiting when it was cancelled";
}

TEST(Fault, a_corrupt_header_is_an_error_that_names_the_peer) {
  for (const char* seed : {"0", "13", "63", "64"}) {
    const Seen seen = run_plan("corrupt_header:nth=2,seed=" + std::string(seed));
    EXPECT_EQ(seen.progress.code(), ErrorCode::corrupt) << seen.progress.text();
    EXPECT_NE(seen.progress.text().find("rank 0"), std::string::npos) << seen.progress.text();
  }
}

TEST(Fault, a_truncated_message_is_an_error_that_shows_both_lengths) {
  const Seen seen = run_plan("truncate:nth=2,bytes=7");
  EXPECT_EQ(seen.progress.code(), ErrorCode::corrupt);
  EXPECT_NE(seen.progress.text().find("rank 0"), std::string::npos) << seen.progress.text();
  EXPECT_NE(seen.progress.text().find("1000 bytes, 993 arrived"), std::string::npos) << seen.progress.text();
  EXPECT_NE(run_plan("truncate:nth=1,bytes=5000").progress.text().find("1000 bytes, 0 arrived"),
            std::string::npos);
}

TEST(Fault, a_corrupt_payload_differs_in_one_bit_and_its_checksum_finds_it) {
  const Seen plain = run_plan("corrupt_payload:nth=2,seed=3");
  expect_sound_but(plain, 1);
  ASSERT_TRUE(plain.ends[1].ok());
  const auto good = pattern(kBytes, 1);
  int bits = 0;
  for (std::size_t i = 0; i < kBytes; ++i) {
    bits += std::popcount(std::to_integer<unsigned>(good[i] ^ plain.payloads[1][i]));
  }
  EXPECT_EQ(bits, 1);
  const Seen checked = run_plan("corrupt_payload:nth=2,seed=3", true);
  expect_sound_but(checked, 1);
  EXPECT_EQ(checked.ends[1].code(), ErrorCode::corrupt) << checked.ends[1].text();
}

TEST(Fault, a_delayed_message_is_overtaken) {
  run_ranks(faulty("delay:nth=1,ms=30,rank=0"), 2, [](Rank& self) {
    const auto payload = pattern(kBytes, 1);
    if (self.rank == 0) {
      const auto before = Deadline::Clock::now();
      Send first = self.send(1, payload);
      Send second = self.send(1, payload);
      second.header.ordinal = 1;
      Send* const sends[] = {&first, &second};
      ASSERT_TRUE(self.transport->post({sends, {}}).ok());
      ASSERT_TRUE(self.until_done(second).ok());
      EXPECT_FALSE(first.done);
      ASSERT_TRUE(self.until_done(first).ok());
      EXPECT_GE(Deadline::Clock::now() - before, std::chrono::milliseconds(30));
      return;
    }
    Recv recvs[2] = {self.recv(0, kBytes), self.recv(0, kBytes)};
    recvs[1].ordinal = 1;
    for (Recv& recv : recvs) ASSERT_TRUE(self.post(recv).ok());
    ASSERT_TRUE(self.until_done(recvs[1]).ok());
    EXPECT_FALSE(recvs[0].done);
    recvs[1].message.release();
    ASSERT_TRUE(self.until_done(recvs[0]).ok());
    EXPECT_TRUE(equal(recvs[0].message.payload(), payload));
  });
}

TEST(Fault, a_delayed_message_can_be_taken_back) {
  run_ranks(faulty("delay:nth=1,ms=3600000,rank=0"), 2, [](Rank& self) {
    if (self.rank == 1) return;
    const auto payload = pattern(kBytes, 1);
    Send send = self.send(1, payload);
    ASSERT_TRUE(self.post(send).ok());
    self.transport->cancel(send);
    EXPECT_EQ(send.status.code(), ErrorCode::aborted);
  });
}

TEST(Fault, a_dead_rank_neither_sends_nor_receives_and_is_missed_once_it_is_gone) {
  run_ranks(faulty("die:nth=2,rank=0"), 2, [](Rank& self) {
    const auto payload = pattern(kBytes, 1);
    if (self.rank == 0) {
      Send first = self.send(1, payload);
      Recv recv = self.recv(1, kBytes);
      ASSERT_TRUE(self.post(first).ok());
      ASSERT_TRUE(self.post(recv).ok());
      ASSERT_TRUE(self.until_done(first).ok());
      Send second = self.send(1, payload);
      second.header.ordinal = 1;
      const Status status = self.post(second);
      EXPECT_EQ(status.code(), ErrorCode::aborted);
      EXPECT_NE(status.text().find("die:nth=2"), std::string::npos) << status.text();
      Send control = self.send(1, {});
      control.header.kind = MessageKind::control;
      EXPECT_EQ(self.post(control).code(), ErrorCode::aborted);
      self.meet_asleep();  // only now does the peer send
      self.meet_asleep();
      EXPECT_EQ(self.transport->progress(soon()).code(), ErrorCode::aborted);
      EXPECT_FALSE(recv.done);
      self.transport->cancel(recv);
      EXPECT_TRUE(recv.done);
      self.transport.reset();
      return;
    }
    Recv first = self.recv(0, kBytes);
    Recv second = self.recv(0, kBytes);
    second.ordinal = 1;
    ASSERT_TRUE(self.post(first).ok() && self.post(second).ok());
    ASSERT_TRUE(self.until_done(first).ok());
    EXPECT_TRUE(first.status.ok());
    first.message.release();
    const auto small = pattern(kBytes, 2);
    self.meet_asleep();
    Send send = self.send(0, small);
    ASSERT_TRUE(self.post(send).ok());
    self.meet_asleep();
    const Status status = self.until_done(second);
    EXPECT_EQ(status.code(), ErrorCode::peer_lost) << status.text();
    EXPECT_EQ(second.status.code(), ErrorCode::peer_lost);
    self.transport->cancel(send);
    EXPECT_TRUE(send.done);
  });
}

}  // namespace
}  // namespace ferrule::transport::testing
