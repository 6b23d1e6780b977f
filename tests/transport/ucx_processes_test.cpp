// The UCX transport between processes: traffic, orderly departure, killed and unreachable ranks. Each
// scenario is run by copies of this program; the path comes from FERRULE_UCX_TLS.
#include "transport/ucx_processes.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <thread>

#include "transport/ranks.hpp"

namespace ferrule::transport::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLimit{60};  // proves "no hang"; a scenario takes well under a second

/// Exit codes of a rank: 0, or the line of the check that failed, so that a report says which.
struct Failure {
  int line;
};
#define CHECK_OR_FAIL(condition, text)                                                    \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " #condition ": " << (text) << "\n"; \
      throw Failure{__LINE__};                                                            \
    }                                                                                     \
  } while (false)

/// One rank of a scenario.
struct Player {
  std::unique_ptr<Transport> transport;
  Membership members;
  Deadline deadline = Deadline::after(kLimit);

  std::int32_t rank() const { return members.rank; }
  std::int32_t ranks() const { return members.size(); }

  static Player connect(const RankProcess& process) {
    Player player;
    player.members = process.membership(player.deadline);
    auto made =
        find_transport("ucx")->connect(player.members, process.exchange(player.deadline), player.deadline);
    CHECK_OR_FAIL(made.ok(), made.status().text());
    player.transport = std::move(made).value();
    return player;
  }

  Send send(std::int32_t peer, std::uint32_t sequence, std::span<const std::byte> payload) const {
    Send made;
    made.peer = peer;
    made.payload = payload;
    made.header.communicator = members.communicator;
    made.header.source = rank();
    made.header.sequence = sequence;
    made.header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    return made;
  }
  Recv recv(std::int32_t peer, std::uint32_t sequence, std::size_t bytes) const {
    Recv made;
    made.peer = peer;
    made.sequence = sequence;
    made.bytes = bytes;
    return made;
  }
  void post(std::span<Send* const> sends, std::span<Recv* const> recvs) const {
    const Status status = transport->post({sends, recvs});
    CHECK_OR_FAIL(status.ok(), status.text());
  }
  /// Progresses until the condition holds or the transport fails.
  template <class Condition>
  Status until(const Condition& condition) const {
    while (!condition()) {
      CHECK_OR_FAIL(!deadline.passed(), "waited in vain");
      FERRULE_RETURN_IF_ERROR(transport->progress(deadline));
    }
    return {};
  }
  template <class Condition>
  void expect(const Condition& condition) const {
    const Status status = until(condition);
    CHECK_OR_FAIL(status.ok(), status.text());
  }
};

/// Every rank sends one message of this size to every other, and checks what it gets.
void exchange_one(Player& player, std::uint32_t sequence, std::size_t bytes) {
  const auto seed = [&](std::int32_t from, std::int32_t to) {
    return sequence * 64 + static_cast<std::uint32_t>(from * 8 + to);
  };
  std::vector<std::vector<std::byte>> payloads;
  std::vector<Send> sends;
  std::vector<Recv> recvs;
  for (std::int32_t peer = 0; peer < player.ranks(); ++peer) {
    if (peer == player.rank()) continue;
    payloads.push_back(pattern(bytes, seed(player.rank(), peer)));
    sends.push_back(player.send(peer, sequence, payloads.back()));
    recvs.push_back(player.recv(peer, sequence, bytes));
  }
  std::vector<Send*> send_list;
  std::vector<Recv*> recv_list;
  for (auto& send : sends) send_list.push_back(&send);
  for (auto& recv : recvs) recv_list.push_back(&recv);
  player.post(send_list, recv_list);
  player.expect([&] {
    return std::all_of(sends.begin(), sends.end(), [](const Send& send) { return send.done; }) &&
           std::all_of(recvs.begin(), recvs.end(), [](const Recv& recv) { return recv.done; });
  });
  for (auto& send : sends) CHECK_OR_FAIL(send.status.ok(), send.status.text());
  for (auto& recv : recvs) {
    CHECK_OR_FAIL(recv.status.ok(), recv.status.text());
    CHECK_OR_FAIL(equal(recv.message.payload(), pattern(bytes, seed(recv.peer, player.rank()))),
                  "another content of " + std::to_string(bytes) + " bytes");
  }
}

void traffic(const RankProcess& process) {
  auto player = Player::connect(process);
  const std::size_t sizes[] = {0,    1,    7,     64,    100,   255,    256,   1000,
                               4096, 8191, 64511, 64512, 64513, 130048, 200000};
  std::uint32_t sequence = 0;
  for (int round = 0; round < 20; ++round) {
    for (const auto bytes : sizes) exchange_one(player, sequence++, bytes);
    player.transport->retire(sequence - 1);
  }
}

/// Rank 1 leaves after its last message; the others need nothing more of it, until they ask.
void leave(const RankProcess& process) {
  auto player = Player::connect(process);
  exchange_one(player, 0, 70000);
  if (player.rank() == 1) return;
  std::vector<std::byte> none;
  for (std::uint32_t sequence = 1; sequence < 100; ++sequence) {
    const std::int32_t other = 2 - player.rank();
    auto send = player.send(other, sequence, none);
    auto recv = player.recv(other, sequence, 0);
    Send* const sends[] = {&send};
    Recv* const recvs[] = {&recv};
    player.post(sends, recvs);
    player.expect([&] { return send.done && recv.done; });
    std::this_thread::sleep_for(milliseconds(1));
  }
  auto never = player.recv(1, 1000, 8);
  Recv* const recvs[] = {&never};
  player.post({}, recvs);
  const Status status = player.until([&] { return false; });
  CHECK_OR_FAIL(status.code() == ErrorCode::peer_lost, status.text());
  CHECK_OR_FAIL(status.text() == player.members.describe(1) + " has left", status.text());
  CHECK_OR_FAIL(never.done && never.status.code() == ErrorCode::peer_lost, never.status.text());
}

/// Rank 1 dies while the others send to it and wait for it.
/// Until every other rank has said a word.
void await_all(Player& player, std::uint32_t sequence) {
  std::vector<Recv> recvs;
  for (std::int32_t peer = 0; peer < player.ranks(); ++peer) {
    if (peer != player.rank()) recvs.push_back(player.recv(peer, sequence, 1));
  }
  std::vector<Recv*> list;
  for (auto& recv : recvs) list.push_back(&recv);
  player.post({}, list);
  player.expect([&] { return std::ranges::all_of(recvs, [](const Recv& recv) { return recv.done; }); });
}

void die(const RankProcess& process) {
  auto player = Player::connect(process);
  exchange_one(player, 0, 1000);
  if (player.rank() == 1) {
    await_all(player, 100);  // a rank that is still exchanging would miss what is expected of it
    ::kill(::getpid(), SIGKILL);
  }
  const std::vector<std::byte> word(1);
  auto done = player.send(1, 100, word);
  Send* const words[] = {&done};
  player.post(words, {});
  player.expect([&] { return done.done; });
  const std::vector<std::byte> payload(64512);
  std::vector<Send> sends(64, player.send(1, 1, payload));
  std::vector<Send*> send_list;
  for (std::uint32_t i = 0; i < sends.size(); ++i) {
    sends[i].header.ordinal = i;
    send_list.push_back(&sends[i]);
  }
  auto recv = player.recv(1, 1, 1000);
  Recv* const recvs[] = {&recv};
  player.post(send_list, recvs);
  const auto limit = Deadline::after(seconds(5));
  const Status status = player.until([&] { return limit.passed(); });
  const std::string victim = player.members.describe(1);
  CHECK_OR_FAIL(status.code() == ErrorCode::peer_lost, status.text());
  CHECK_OR_FAIL(status.text().starts_with(victim), status.text());
  CHECK_OR_FAIL(recv.done && recv.status.code() == ErrorCode::peer_lost, recv.status.text());
  for (auto& send : sends) {
    player.transport->cancel(send);
    CHECK_OR_FAIL(send.done, "a send to the dead is not done");
  }
  // From now on, everything to and from it fails at once.
  auto late = player.send(1, 2, payload);
  Send* const late_list[] = {&late};
  player.post(late_list, {});
  CHECK_OR_FAIL(late.done && late.status.code() == ErrorCode::peer_lost, late.status.text());
}

Status try_to_connect(const RankProcess& process, seconds limit,
                      const std::function<void()>& after_exchange) {
  const auto deadline = Deadline::after(kLimit);
  const auto exchange = process.exchange(deadline);
  const auto then = [&](std::string_view name, std::string_view mine) {
    auto values = exchange(name, mine);
    after_exchange();
    return values;
  };
  return find_transport("ucx")->connect(process.membership(deadline), then, Deadline::after(limit)).status();
}

/// Rank 1 dies between giving its address and connecting.
void die_early(const RankProcess& process) {
  const Status status = try_to_connect(process, seconds(5), [&] {
    if (process.rank == 1) ::kill(::getpid(), SIGKILL);
  });
  CHECK_OR_FAIL(status.code() == ErrorCode::peer_lost, status.text());
  // Whoever gives up first must not be what the other sees: both stay until both have given up.
  const auto survivors = file_exchange(process.folder, process.rank / 2, 2, Deadline::after(kLimit));
  CHECK_OR_FAIL(survivors("given up", "").ok(), "the other survivor is missing");
  CHECK_OR_FAIL(status.text().find("rank 1") != std::string::npos, status.text());
}

/// Rank 1 gives its address and then does nothing until the others have given up.
void stay_silent(const RankProcess& process) {
  const auto deadline = Deadline::after(kLimit);
  if (process.rank == 1) {
    (void)try_to_connect(process, seconds(1), [&] { (void)process.exchange(deadline)("given up", ""); });
    return;
  }
  const Status status = try_to_connect(process, seconds(1), [] {});
  CHECK_OR_FAIL(status.code() == ErrorCode::timeout, status.text());
  CHECK_OR_FAIL(status.text().find("rank 1 (host testhost, pid") != std::string::npos, status.text());
  (void)process.exchange(deadline)("given up", "");
}

/// The host process's signal handlers and environment are its own.
void mind_own_business(const RankProcess& process) {
  auto player = Player::connect(process);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGHUP}) {
    struct sigaction current {};
    CHECK_OR_FAIL(::sigaction(signal, nullptr, &current) == 0, "sigaction");
    Dl_info info{};
    const bool known = current.sa_handler != SIG_DFL && current.sa_handler != SIG_IGN &&
                       ::dladdr(reinterpret_cast<void*>(current.sa_handler), &info) != 0;
    const std::string owner = known && info.dli_fname != nullptr ? info.dli_fname : "";
    CHECK_OR_FAIL(owner.find("libucs") == std::string::npos, owner);
  }
  exchange_one(player, 0, 100);
}

int run_scenario(const RankProcess& process) {
  const std::pair<std::string_view, void (*)(const RankProcess&)> scenarios[] = {
      {"traffic", traffic},
      {"leave", leave},
      {"die", die},
      {"die_early", die_early},
      {"stay_silent", stay_silent},
      {"mind_own_business", mind_own_business}};
  for (const auto& [name, run] : scenarios) {
    if (name != process.scenario) continue;
    try {
      run(process);
      return 0;
    } catch (const Failure& failure) {
      return 1 + failure.line % 100;
    }
  }
  std::cerr << "no scenario " << process.scenario << "\n";
  return 127;
}

// ---- the parent's side

std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

constexpr int kKilled = 128 + SIGKILL;

/// All ranks end well, except rank 1 in a scenario that kills it; nobody has printed anything.
void expect_success(const std::string& scenario, std::int32_t ranks, int exit_of_rank_1 = 0,
                    const std::vector<std::string>& environment = {}) {
  const auto results = run_processes(scenario, ranks, environment, kLimit);
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    EXPECT_EQ(results[rank].exit_code, rank == 1 ? exit_of_rank_1 : 0) << "rank " << rank;
    EXPECT_EQ(results[rank].errors, "") << "rank " << rank;
  }
}

TEST(UcxProcesses, two_ranks_exchange_messages_of_all_sizes) { expect_success("traffic", 2); }
TEST(UcxProcesses, four_ranks_exchange_messages_of_all_sizes) { expect_success("traffic", 4); }
TEST(UcxProcesses, an_orderly_departure_disturbs_nobody) { expect_success("leave", 3); }
TEST(UcxProcesses, a_killed_rank_is_named) { expect_success("die", 3, kKilled); }
TEST(UcxProcesses, a_rank_that_died_before_it_connected_is_named) { expect_success("die_early", 3, kKilled); }
TEST(UcxProcesses, a_rank_that_does_not_answer_is_named_at_the_deadline) { expect_success("stay_silent", 3); }
TEST(UcxProcesses, signal_handlers_are_left_alone) { expect_success("mind_own_business", 2); }

TEST(UcxProcesses, what_the_user_set_wins) {
  // Only a transport that this machine certainly lacks is allowed: connecting must fail for that reason.
  const auto results = run_processes("mind_own_business", 2, {"UCX_TLS=rc_x", "FERRULE_UCX_TLS=tcp"}, kLimit);
  for (const auto& result : results) {
    EXPECT_NE(result.exit_code, 0);
    EXPECT_NE(result.errors.find("UCX"), std::string::npos) << result.errors;
  }
}

TEST(UcxProcesses, segment_sizes_that_corrupt_are_refused) {
  const auto results = run_processes("mind_own_business", 1, {"UCX_POSIX_SEG_SIZE=64K"}, kLimit);
  EXPECT_NE(results[0].exit_code, 0);
  EXPECT_NE(results[0].errors.find("UCX_POSIX_SEG_SIZE=64K"), std::string::npos) << results[0].errors;
}

TEST(UcxProcesses, shared_memory_files_do_not_outlive_even_a_killed_rank) {
  const auto before = shared_memory_files();
  expect_success("die", 2, kKilled);
  const auto left_over = [&] {
    std::vector<std::string> names;
    const auto after = shared_memory_files();
    std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(names));
    std::erase_if(names, [](const std::string& name) { return name.find("ucx") == std::string::npos; });
    return names;
  };
  // Other programs on this machine may be starting with UCX at this very moment; theirs go.
  const auto deadline = Deadline::after(seconds(5));
  while (!left_over().empty() && !deadline.passed()) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_THAT(left_over(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace ferrule::transport::testing

/// UCX 1.13 loses 100 bytes when it cannot connect; nothing of ours is allocated there.
extern "C" const char* __lsan_default_suppressions() { return "leak:libuct\n"; }

int main(int argc, char** argv) {
  const auto process = ferrule::transport::testing::RankProcess::from_arguments(argc, argv);
  if (process.rank >= 0) return ferrule::transport::testing::run_scenario(process);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
