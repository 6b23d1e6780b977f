// Nothing is left behind, however many communicators come and go: descriptors, threads, memory.
//
// TEST_COLLECTIVES says how many small all-reduces each of the two tests makes in all (2,000).
#include <malloc.h>

#include <chrono>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

using namespace std::chrono_literals;

/// All-reduces between making a communicator and closing it.
constexpr int kEach = 50;

int communicators() {
  const char* text = std::getenv("TEST_COLLECTIVES");
  const int collectives = text == nullptr ? 2000 : std::atoi(text);
  return std::max(8, collectives / kEach);
}

std::ptrdiff_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

struct Held {
  std::ptrdiff_t descriptors = entries_of("/proc/self/fd");
  std::ptrdiff_t threads = entries_of("/proc/self/task");
  std::size_t heap_bytes = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
};

/// A joined thread may still be listed for a moment, and one that ends by itself for longer.
Held held_at_rest(const Held& before) {
  Held now;
  for (int i = 0; i < 500 && now.threads > before.threads; ++i) {
    std::this_thread::sleep_for(10ms);
    now = Held();
  }
  return now;
}

void use(Communicator& comm) {
  for (int i = 0; i < kEach; ++i) {
    std::vector<float> x(static_cast<std::size_t>(1 + i * 7), 1.0F);
    AllReduceOptions options;
    options.codec = i % 3 == 0 ? "int8" : "none";
    const Status status = comm.all_reduce({x.data(), x.size()}, ReduceOp::sum, options);
    ASSERT_TRUE(status.ok()) << status.text();
    ASSERT_NEAR(x[0], static_cast<float>(comm.size()), 0.1F);
  }
}

/// What may be left: a rank that closes leaves a note of it in its refuge, of which the last 4,096 are kept.
constexpr std::size_t kNoteBytes = 600;
constexpr std::size_t kMostNotes = 4096;
/// What allocators and libraries keep in reserve, however long it runs.
constexpr std::size_t kReserveBytes = std::size_t{256} << 10;

/// The first quarter fills caches. `ranks`: of each communicator in this process.
void expect_nothing_left(int times, std::size_t ranks, const std::function<void(int)>& once) {
  Held before;
  for (int i = 0; i < times; ++i) {
    if (i == times / 4) before = Held();
    once(i);
    if (::testing::Test::HasFailure()) return;
  }
  const Held after = held_at_rest(before);
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  const auto made = static_cast<std::size_t>(times - times / 4);
  const std::size_t notes = std::min(made * ranks, kMostNotes) * kNoteBytes;
  EXPECT_LE(after.heap_bytes, before.heap_bytes + notes + kReserveBytes);
  ::printf("%d communicators: %+td descriptors, %+td threads, %+.1f bytes of heap each\n", times,
           after.descriptors - before.descriptors, after.threads - before.threads,
           (static_cast<double>(after.heap_bytes) - static_cast<double>(before.heap_bytes)) /
               static_cast<double>(made));
}

TEST(Endurance, CommunicatorsOfThreadsLeaveNothingBehind) {
  expect_nothing_left(communicators(), 2, [](int) {
    auto comms = make_world(2);
    on_all_ranks(comms, [](int, Communicator& comm) { use(comm); });
  });
}

TEST(Endurance, CommunicatorsOfProcessesLeaveNothingBehind) {
  const auto names = split_names(ferruleTransportNames());
  if (std::find(names.begin(), names.end(), "ucx") == names.end()) GTEST_SKIP() << "this build has no UCX";
  char place[] = "/tmp/ferrule-endurance-XXXXXX";
  ASSERT_NE(::mkdtemp(place), nullptr);
  const std::string meet = std::string("file://") + place + "/meet";
  std::vector<pid_t> ranks;
  std::fflush(nullptr);
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(::fork());
    ASSERT_GE(ranks.back(), 0);
    if (ranks.back() != 0) continue;
    CommunicatorConfig config;
    config.transport = "ucx";
    config.timeout = 60s;
    expect_nothing_left(communicators(), 1, [&](int) {
      auto comm = Communicator::connect(rank, 2, meet, config);
      ASSERT_TRUE(comm.ok()) << comm.status().text();
      use(*comm);
    });
    std::fflush(nullptr);
    ::_exit(HasFailure() ? 1 : 0);
  }
  for (const pid_t rank : ranks) {
    int status = 0;
    ASSERT_EQ(::waitpid(rank, &status, 0), rank);
    EXPECT_EQ(status, 0);
  }
  std::filesystem::remove_all(place);
}

}  // namespace
}  // namespace ferrule::testing
