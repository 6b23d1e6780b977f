// Ranks as processes, meeting by every way there is. The program starts itself: `meet_test --rank` runs one
// rank from its environment and prints what it learned.
#include "rendezvous/meet.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "base/secret_key.hpp"
#include "base/settings.hpp"
#include "rendezvous/interface.hpp"
#include "rendezvous/store_server.hpp"
#include "rendezvous/tcp_store.hpp"
#include "rendezvous/wrapped_stores.hpp"

namespace ferrule::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// ---- the rank's side

int run_rank() {
  const auto timeout = settings::duration("FERRULE_TIMEOUT").value();
  const Result<World> world = world_from_environment();
  Status status = world.status();
  for (int communicator = 0; status.ok() && communicator < 2; ++communicator) {
    const auto meeting = meet(*world, Deadline::after(timeout));
    status = meeting.status();
    if (!status.ok()) break;
    const auto all = meeting->exchange("ranks", std::to_string(world->rank));
    status = all.status();
    if (!status.ok()) break;
    std::string together;
    for (const std::string& one : *all) together += one;
    std::printf("met rank=%d all=%s id=%016lx address=%s interface=%s where=%s\n", world->rank,
                together.c_str(), static_cast<unsigned long>(meeting->membership.communicator),
                meeting->membership.peers[meeting->membership.rank].address.c_str(),
                meeting->membership.interface.c_str(), meeting->where.c_str());
  }
  if (!status.ok())
    std::printf("failed %s: %s\n", error_code_name(status.code()).data(), status.text().c_str());
  return status.ok() ? 0 : 3;
}

// ---- the test's side

struct Process {
  pid_t pid;
  int output;
};

// Starts `command` with only these variables (and the path); standard output and error come back together.
Process start(const std::vector<std::string>& command, const Environment& environment) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(ends[1], 1);
    ::dup2(ends[1], 2);
    ::close(ends[0]);
    ::close(ends[1]);
    std::vector<std::string> entries = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
    for (const auto& [name, value] : environment) entries.push_back(name + "=" + value);
    for (const char* kept : {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"}) {
      if (const char* value = std::getenv(kept)) entries.push_back(std::string(kept) + "=" + value);
    }
    std::vector<char*> arguments, variables;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& entry : entries) variables.push_back(const_cast<char*>(entry.c_str()));
    arguments.push_back(nullptr);
    variables.push_back(nullptr);
    ::execvpe(arguments[0], arguments.data(), variables.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  return {pid, ends[0]};
}

std::string finish(const Process& process) {
  std::string output;
  char bytes[4096];
  ssize_t got = 0;
  while ((got = ::read(process.output, bytes, sizeof(bytes))) > 0)
    output.append(bytes, static_cast<std::size_t>(got));
  ::close(process.output);
  int status = 0;
  ::waitpid(process.pid, &status, 0);
  return output;
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }
Process start_rank(Environment environment) {
  environment.emplace("FERRULE_TIMEOUT", "60s");
  return start({own_program(), "--rank"}, environment);
}

std::vector<std::string> finish_all(const std::vector<Process>& processes) {
  std::vector<std::string> outputs;
  for (const Process& process : processes) outputs.push_back(finish(process));
  return outputs;
}

std::vector<std::string> run_all(const std::vector<Environment>& environments) {
  std::vector<Process> processes;
  for (const Environment& environment : environments) processes.push_back(start_rank(environment));
  return finish_all(processes);
}

std::uint16_t free_port() {
  ServerOptions options;
  options.addresses = resolve("127.0.0.1", 0, Deadline::never()).value();
  return StoreServer::listen(options).value()->port();
}

void expect_met(const std::vector<std::string>& outputs, const std::string& all) {
  for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
    EXPECT_THAT(outputs[rank], HasSubstr(fmt::format("met rank={} all={} id=", rank, all)));
    EXPECT_THAT(outputs[rank], testing::Not(HasSubstr("failed")));
  }
}

std::vector<Environment> plain_ranks(int size, const std::string& host, std::uint16_t port) {
  std::vector<Environment> all;
  for (int rank = 0; rank < size; ++rank) {
    all.push_back({{"RANK", std::to_string(rank)},
                   {"WORLD_SIZE", std::to_string(size)},
                   {"MASTER_ADDR", host},
                   {"MASTER_PORT", std::to_string(port)}});
  }
  return all;
}

std::vector<Environment> torchrun_ranks(int size, const std::string& host, std::uint16_t port) {
  std::vector<Environment> all = plain_ranks(size, host, port);
  for (Environment& one : all) {
    one["TORCHELASTIC_RUN_ID"] = "run-7";
    one["LOCAL_RANK"] = one["RANK"];
    one["LOCAL_WORLD_SIZE"] = one["WORLD_SIZE"];
  }
  return all;
}

TEST(Meet, PlainRanksAtTheMastersPort) {
  const std::uint16_t port = free_port();
  const auto outputs = run_all(plain_ranks(4, "127.0.0.1", port));
  expect_met(outputs, "0123");
  EXPECT_THAT(outputs[3], HasSubstr(fmt::format("where=tcp://127.0.0.1:{}", port)));
  EXPECT_THAT(outputs[3], HasSubstr("address=127.0.0.1 interface=lo"));
}

TEST(Meet, ByNameAndIpv6) {
  expect_met(run_all(plain_ranks(2, "localhost", free_port())), "01");
  const auto outputs = run_all(plain_ranks(2, "[::1]", free_port()));
  expect_met(outputs, "01");
  EXPECT_THAT(outputs[1], HasSubstr("address=::1 interface=lo where=tcp://[::1]:"));
}

// What torchrun's own store does: it listens on MASTER_PORT and answers nothing of ours.
TEST(Meet, BesideAnotherServerOnTheMastersPort) {
  ServerOptions options;
  options.addresses = resolve("127.0.0.1", 0, Deadline::never()).value();
  options.job = "not this one";
  const auto other = StoreServer::listen(options).value();
  expect_met(run_all(torchrun_ranks(3, "127.0.0.1", other->port())), "012");
  const auto outputs = run_all(plain_ranks(3, "127.0.0.1", other->port()));
  expect_met(outputs, "012");
  EXPECT_THAT(outputs[1], testing::Not(HasSubstr(fmt::format("where=tcp://127.0.0.1:{}", other->port()))));
}

TEST(Meet, TwoJobsSideBySide) {
  std::vector<Environment> both = torchrun_ranks(2, "127.0.0.1", 29500);
  for (Environment one : torchrun_ranks(2, "127.0.0.1", 29500)) {
    one["TORCHELASTIC_RUN_ID"] = "run-8";
    // A range of four ports for two jobs: they must get past each other's servers.
    both.push_back(one);
  }
  const std::uint16_t port = 24100;
  for (Environment& one : both) one["FERRULE_PORT_RANGE"] = fmt::format("{}-{}", port, port + 3);
  const auto outputs = run_all(both);
  const auto id = [&](int of) { return outputs[of].substr(outputs[of].find("id="), 19); };
  for (const int of : {0, 1, 2, 3}) ASSERT_THAT(outputs[of], HasSubstr("all=01"));
  EXPECT_EQ(id(0), id(1));
  EXPECT_EQ(id(2), id(3));
  EXPECT_NE(id(0), id(2));
}

TEST(Meet, PortRangeIsKeptAndABusyOneIsNamed) {
  std::vector<std::shared_ptr<StoreServer>> busy;
  for (std::uint16_t port = 24200; port <= 24202; ++port) {
    ServerOptions options;
    options.addresses = resolve("127.0.0.1", port, Deadline::never()).value();
    options.job = "busy";
    auto server = StoreServer::listen(options);
    if (server.ok()) busy.push_back(*server);
  }
  auto ranks = torchrun_ranks(2, "127.0.0.1", 29500);
  for (Environment& one : ranks) one["FERRULE_PORT_RANGE"] = "24200-24203";
  const auto outputs = run_all(ranks);
  expect_met(outputs, "01");
  EXPECT_THAT(outputs[1], HasSubstr("where=tcp://127.0.0.1:24203"));
  for (Environment& one : ranks) one["FERRULE_PORT_RANGE"] = "24200-24202";
  const std::string zero = finish(start_rank(ranks[0]));
  EXPECT_THAT(zero,
              testing::AllOf(HasSubstr("failed system"), HasSubstr("none of 3 ports"), HasSubstr("in use")));
}

TEST(Meet, OpenMpiAndSlurmAndMpichOnOneHost) {
  const auto ranks = [](const std::map<std::string, std::string>& names, const Environment& more) {
    std::vector<Environment> all(2, more);
    for (int rank = 0; rank < 2; ++rank) {
      for (const auto& [name, what] : names) all[rank][name] = what == "rank" ? std::to_string(rank) : "2";
    }
    return all;
  };
  const std::string job = std::to_string(::getpid());
  expect_met(run_all(ranks({{"OMPI_COMM_WORLD_RANK", "rank"},
                            {"OMPI_COMM_WORLD_SIZE", "size"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "rank"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "size"}},
                           {{"PMIX_NAMESPACE", job}})),
             "01");
  expect_met(run_all(ranks({{"SLURM_PROCID", "rank"}, {"SLURM_NTASKS", "size"}, {"SLURM_LOCALID", "rank"}},
                           {{"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", job}})),
             "01");
  expect_met(run_all(ranks({{"PMI_RANK", "rank"}, {"PMI_SIZE", "size"}}, {})), "01");
}

TEST(Meet, ThroughAFileThatAnEarlierJobLeftBehind) {
  std::string path = (std::filesystem::temp_directory_path() / "ferrule-meet-XXXXXX").string();
  ::close(::mkstemp(path.data()));
  auto ranks = plain_ranks(3, "unused", 1);
  for (Environment& one : ranks) one["FERRULE_RENDEZVOUS"] = "file://" + path;
  // A job that ended without cleaning up.
  auto lonely = ranks[0];
  lonely["FERRULE_TIMEOUT"] = "30s";
  const Process killed = start_rank(lonely);
  while (!std::filesystem::exists(path + ".ferrule/current")) std::this_thread::sleep_for(milliseconds(5));
  ::kill(killed.pid, SIGKILL);
  (void)finish(killed);
  EXPECT_TRUE(std::filesystem::exists(path + ".ferrule/current"));
  // Ranks 1 and 2 come first and see only the old session.
  std::vector<Process> processes(3);
  for (const int rank : {2, 1}) processes[rank] = start_rank(ranks[rank]);
  std::this_thread::sleep_for(milliseconds(200));
  processes[0] = start_rank(ranks[0]);
  const auto outputs = finish_all(processes);
  expect_met(outputs, "012");
  EXPECT_THAT(outputs[1], HasSubstr("where=file://" + path));
  EXPECT_FALSE(std::filesystem::exists(path + ".ferrule"));  // it leaves nothing behind
  std::filesystem::remove(path);
}

TEST(Meet, AMissingRankIsNamedByTheOthers) {
  auto ranks = plain_ranks(4, "127.0.0.1", free_port());
  ranks.resize(2);
  for (Environment& one : ranks) one["FERRULE_TIMEOUT"] = "1s";
  for (const std::string& output : run_all(ranks)) {
    EXPECT_THAT(output, HasSubstr("failed timeout: ranks 2 and 3 of 4 did not arrive within"));
    EXPECT_THAT(output, HasSubstr("at tcp://127.0.0.1:"));
  }
}

TEST(Meet, WorldSizesThatDifferAreNamed) {
  auto ranks = plain_ranks(2, "127.0.0.1", free_port());
  ranks[1]["WORLD_SIZE"] = "4";
  for (const std::string& output : run_all(ranks)) {
    EXPECT_THAT(output, testing::AllOf(HasSubstr("failed mismatch"), HasSubstr("there are 4 ranks"),
                                       HasSubstr("says 2")));
  }
}

TEST(Meet, AnAddressWithoutAServerIsNamedWithTheReason) {
  auto ranks = plain_ranks(2, "127.0.0.1", free_port());
  ranks[1]["FERRULE_TIMEOUT"] = "300ms";
  ranks[1]["FERRULE_RENDEZVOUS"] = "tcp://127.0.0.1:" + ranks[1]["MASTER_PORT"];
  EXPECT_THAT(
      finish(start_rank(ranks[1])),
      testing::AllOf(HasSubstr("failed timeout"), HasSubstr("tcp://127.0.0.1:" + ranks[1]["MASTER_PORT"]),
                     HasSubstr("Connection refused"), HasSubstr("Is rank 0 running")));
}

bool can_authenticate() { return !SecretKey::library().empty(); }

void give(std::vector<Environment>& ranks, const std::string& secret) {
  for (Environment& one : ranks) one["FERRULE_JOB_SECRET"] = secret;
}

constexpr char kSecret[] = "the secret of this job";

TEST(MeetWithASecret, ByPortAndByFile) {
  if (!can_authenticate()) GTEST_SKIP() << "this build has no libsodium";
  auto ranks = plain_ranks(3, "127.0.0.1", free_port());
  give(ranks, kSecret);
  expect_met(run_all(ranks), "012");
  std::string path = (std::filesystem::temp_directory_path() / "ferrule-meet-XXXXXX").string();
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  for (Environment& one : ranks) one["FERRULE_RENDEZVOUS"] = "file://" + path;
  expect_met(run_all(ranks), "012");
  std::filesystem::remove_all(path);
}

// Whoever comes first: the one without the secret neither takes the rank's place nor disturbs the others.
TEST(MeetWithASecret, ImpostorsAreRefusedOnBothSidesAndTheRankStillCounts) {
  if (!can_authenticate()) GTEST_SKIP() << "this build has no libsodium";
  const std::uint16_t port = free_port();
  auto ranks = plain_ranks(3, "127.0.0.1", port);
  auto impostors = plain_ranks(3, "127.0.0.1", port);
  give(ranks, kSecret);
  impostors[2]["FERRULE_JOB_SECRET"] = "the secret of another job";
  const Process zero = start_rank(ranks[0]);
  for (const int rank : {1, 2}) {
    const std::string output = finish(start_rank(impostors[rank]));
    EXPECT_THAT(output, testing::AllOf(HasSubstr("failed mismatch"), HasSubstr("does not accept this rank"),
                                       HasSubstr("set FERRULE_JOB_SECRET")));
  }
  const auto others = finish_all({start_rank(ranks[1]), start_rank(ranks[2])});
  const std::string first = finish(zero);
  expect_met({first, others[0], others[1]}, "012");
  EXPECT_THAT(first, testing::AllOf(HasSubstr("refused a rank at 127.0.0.1: it has no job secret"),
                                    HasSubstr("it does not know this job's secret")));
}

TEST(MeetWithASecret, DifferentOnesAtAFileAreNamed) {
  if (!can_authenticate()) GTEST_SKIP() << "this build has no libsodium";
  std::string path = (std::filesystem::temp_directory_path() / "ferrule-meet-XXXXXX").string();
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  for (const std::string other : {"", "the secret of another job"}) {
    auto ranks = plain_ranks(2, "unused", 1);
    give(ranks, kSecret);
    ranks[1]["FERRULE_JOB_SECRET"] = other;
    for (Environment& one : ranks) one["FERRULE_RENDEZVOUS"] = "file://" + path;
    for (const std::string& output : run_all(ranks)) {
      EXPECT_THAT(output, testing::AllOf(HasSubstr("failed mismatch"), HasSubstr("secret"),
                                         HasSubstr("set FERRULE_JOB_SECRET")));
      EXPECT_THAT(output, testing::Not(HasSubstr(kSecret)));
    }
  }
  std::filesystem::remove_all(path);
}

TEST(MeetWithASecret, ABuildWithoutLibsodiumSaysSo) {
  if (can_authenticate()) GTEST_SKIP() << "this build has libsodium";
  auto ranks = plain_ranks(1, "127.0.0.1", free_port());
  give(ranks, kSecret);
  EXPECT_THAT(finish(start_rank(ranks[0])),
              testing::AllOf(HasSubstr("failed unsupported"), HasSubstr("install libsodium-dev")));
}

// The example of docs/security.md, as it stands there.
TEST(MeetWithASecret, AsThePageSays) {
  if (!can_authenticate()) GTEST_SKIP() << "this build has no libsodium";
  std::string folder = (std::filesystem::temp_directory_path() / "ferrule-meet-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  auto ranks = plain_ranks(2, "127.0.0.1", free_port());
  std::vector<Process> processes;
  for (Environment& one : ranks) {
    one["HOME"] = folder;
    one["FERRULE_TIMEOUT"] = "60s";
    processes.push_back(start(
        {"sh", "-c", "umask 022; . " FERRULE_SECRET_EXAMPLE "; exec \"$0\" --rank", own_program()}, one));
    // The first to start makes the file; the others would make one of their own on another host.
    const std::string file = folder + "/ferrule.secret";
    for (int i = 0; i < 1000 && !std::filesystem::exists(file); ++i)
      std::this_thread::sleep_for(milliseconds(10));
  }
  expect_met(finish_all(processes), "01");
  std::filesystem::remove_all(folder);
}

std::string outward_address() {
  const auto interfaces = list_interfaces();
  for (const auto& entry : interfaces.ok() ? *interfaces : std::vector<InterfaceAddress>()) {
    if (entry.address.family() == AF_INET && !entry.address.is_loopback()) return entry.address.ip();
  }
  return "";
}

TEST(Meet, RanksOfOneHostListenOnLoopbackWhateverTheAddress) {
  const std::string address = outward_address();
  if (address.empty()) GTEST_SKIP() << "this host has loopback only";
  const auto outputs = run_all(torchrun_ranks(2, address, 29500));
  expect_met(outputs, "01");
  EXPECT_THAT(outputs[1], HasSubstr("address=127.0.0.1 interface=lo where=tcp://127.0.0.1:"));
}

// The launcher does not say that all ranks are here, so it listens where it was told, on nothing else, and
// says who may come.
TEST(Meet, WithoutASecretAnOpenPortIsMentionedOnce) {
  const std::string address = outward_address();
  if (address.empty()) GTEST_SKIP() << "this host has loopback only";
  auto ranks = plain_ranks(2, address, free_port());
  for (Environment& one : ranks) one["FERRULE_DEBUG"] = "INFO";
  auto outputs = run_all(ranks);
  expect_met(outputs, "01");
  EXPECT_THAT(outputs[0], HasSubstr("is not authenticated: whoever reaches it can join this job"));
  EXPECT_EQ(outputs[0].find("is not authenticated"), outputs[0].rfind("is not authenticated"));
  EXPECT_THAT(outputs[1], HasSubstr("where=tcp://" + address));
  if (!can_authenticate()) return;
  give(ranks, kSecret);
  outputs = run_all(ranks);
  expect_met(outputs, "01");
  EXPECT_THAT(outputs[0], testing::Not(HasSubstr("is not authenticated")));
}

TEST(Meet, ARestartedRankLearnsThatItIsTooLate) {
  const std::uint16_t port = free_port();
  auto ranks = plain_ranks(2, "127.0.0.1", port);
  const std::string place = fmt::format("tcp://127.0.0.1:{}", port);
  std::thread other([&] { EXPECT_TRUE(meet_at(place, 1, 2, Deadline::after(seconds(60))).ok()); });
  EXPECT_TRUE(meet_at(place, 0, 2, Deadline::after(seconds(60))).ok());
  other.join();
  ranks[1]["FERRULE_RENDEZVOUS"] = place;
  EXPECT_THAT(
      finish(start_rank(ranks[1])),
      testing::AllOf(HasSubstr("failed mismatch: two processes claim rank 1"),
                     HasSubstr("The first has met the others already"), HasSubstr("start all ranks again")));
}

TEST(Meet, ThreadsAsRanksAndManyCommunicators) {
  const std::string place = fmt::format("tcp://127.0.0.1:{}", free_port());
  constexpr int kSize = 4;
  constexpr int kRounds = 3;
  std::array<std::array<std::uint64_t, kSize>, kRounds> ids{};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      for (int round = 0; round < kRounds; ++round) {
        const auto meeting = meet_at(place, rank, kSize, Deadline::after(seconds(60)));
        ASSERT_TRUE(meeting.ok()) << meeting.status().text();
        ids[round][rank] = meeting->membership.communicator;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int round = 0; round < kRounds; ++round) {
    for (const std::uint64_t id : ids[round]) EXPECT_EQ(id, ids[round][0]);
    EXPECT_TRUE(round == 0 || ids[round][0] != ids[round - 1][0]);
  }
}

TEST(Meet, ThroughAStoreOfTheCallers) {
  auto store = std::make_shared<MemoryStore>();
  std::thread other([&] {
    EXPECT_TRUE(meet_through(store, {"g", 1, 2}, Deadline::after(seconds(60))).ok());
  });
  const auto meeting = meet_through(store, {"g", 0, 2}, Deadline::after(seconds(60)));
  other.join();
  ASSERT_TRUE(meeting.ok()) << meeting.status().text();
  EXPECT_EQ(meeting->membership.size(), 2);
  const auto again = meet_through(store, {"g", 0, 2}, Deadline::after(seconds(60)));
  EXPECT_EQ(again.status().code(), ErrorCode::mismatch);  // the group is not new
}

TEST(Meet, CallsThatMakeNoSenseAreRefused) {
  const auto code = [](const Result<Meeting>& meeting) { return meeting.status().code(); };
  const Deadline soon = Deadline::after(seconds(5));
  EXPECT_EQ(code(meet_at("tcp://127.0.0.1:1", 2, 2, soon)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(meet_at("tcp://127.0.0.1:1", -1, 2, soon)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(meet_at("tcp://127.0.0.1:1", 0, 0, soon)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(meet_at("nonsense", 0, 2, soon)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(meet_through(std::make_shared<MemoryStore>(), {"", 0, 1}, soon)),
            ErrorCode::invalid_argument);
  EXPECT_TRUE(meet(World{}, soon).ok());
}

// Two hosts made of network namespaces, each with a bridge of the same address, as container engines make
// them, and each with a hosts file that says that its own name is 127.0.1.1.
TEST(Meet, AcrossHostsOverTheInterfaceBetweenThem) {
  const std::string a = fmt::format("fra{}", ::getpid()), b = fmt::format("frb{}", ::getpid());
  const auto shell = [](const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str());
  };
  const auto remove = [&] { (void)shell(fmt::format("ip netns del {}; ip netns del {}", a, b)); };
  std::string setup = fmt::format(
      "ip netns add {} && ip netns add {} && ip link add vetha netns {} type veth peer name vethb netns {}",
      a, b, a, b);
  for (const auto& [host, name, number] : {std::tuple(a, "a", 1), std::tuple(b, "b", 2)}) {
    setup += fmt::format(
        " && ip -n {0} link set lo up && ip -n {0} link add docker0 type bridge && ip -n {0} addr add "
        "172.17.0.1/16 dev "
        "docker0 && ip -n {0} link set docker0 up && ip -n {0} addr add 10.77.0.{2}/24 dev veth{1} && ip -n "
        "{0} link set "
        "veth{1} up",
        host, name, number);
  }
  if (::geteuid() != 0 || shell(setup) != 0) {
    remove();
    GTEST_SKIP() << "needs root, ip netns and bridges";
  }
  auto ranks = plain_ranks(2, "10.77.0.1", 29400);
  for (const bool by_name : {false, true}) {
    std::vector<Process> processes;
    for (int rank = 0; rank < 2; ++rank) {
      const std::string hosts =
          fmt::format("127.0.0.1 localhost\\n{} master\\n", rank == 0 ? "127.0.1.1" : "10.77.0.1");
      Environment environment = ranks[rank];
      environment.emplace("FERRULE_TIMEOUT", "30s");
      environment.emplace("FERRULE_DEBUG", "INFO");
      if (by_name) environment["MASTER_ADDR"] = "master";
      const std::string inside = fmt::format(
          "printf '{}' > /tmp/fr-hosts-{}-{} && mount --bind /tmp/fr-hosts-{}-{} /etc/hosts; exec {} --rank",
          hosts, ::getpid(), rank, ::getpid(), rank, own_program());
      processes.push_back(start(
          {"ip", "netns", "exec", rank == 0 ? a : b, "unshare", "-m", "sh", "-c", inside}, environment));
    }
    const auto outputs = finish_all(processes);
    expect_met(outputs, "01");
    EXPECT_THAT(outputs[0], HasSubstr("address=10.77.0.1 interface=vetha"));
    EXPECT_THAT(outputs[1], HasSubstr("address=10.77.0.2 interface=vethb"));
    EXPECT_THAT(outputs[1],
                HasSubstr("network: interface vethb, address 10.77.0.2: it routes to the rendezvous"));
    EXPECT_THAT(outputs[0], testing::Not(HasSubstr("172.17.0.1")));
  }
  remove();
  for (int rank = 0; rank < 2; ++rank)
    std::filesystem::remove(fmt::format("/tmp/fr-hosts-{}-{}", ::getpid(), rank));
}

}  // namespace

int meet_rank_main() { return run_rank(); }

}  // namespace ferrule::rendezvous

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--rank") return ferrule::rendezvous::meet_rank_main();
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
