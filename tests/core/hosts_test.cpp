// `hierarchical` between hosts that are real to the library: processes in two network namespaces, which find
// out by themselves who shares a host. Over UCX: shared memory inside a host, TCP between them.
#include "core/namespaces.hpp"
#include "core/world.hpp"

namespace ferrule::testing {
namespace {

constexpr std::size_t kCount = 20011;

std::vector<float> reduce(Communicator& comm, const std::vector<float>& input, const std::string& codec,
                          const std::string& algorithm) {
  std::vector<float> data = input;
  AllReduceOptions options;
  options.codec = codec;
  options.algorithm = algorithm;
  const Status status = comm.all_reduce({data.data(), data.size()}, ReduceOp::sum, options);
  EXPECT_TRUE(status.ok()) << status.text();
  return data;
}

/// What ranks that are told their topology make of the same inputs, as threads.
std::vector<float> expected(const std::string& topology, const Ranks& inputs, const std::string& codec) {
  ::setenv("FERRULE_TOPOLOGY", topology.c_str(), 1);
  auto comms = make_world(static_cast<int>(inputs.size()));
  ::unsetenv("FERRULE_TOPOLOGY");
  std::vector<float> first;
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    const auto output = reduce(comm, inputs[static_cast<std::size_t>(rank)], codec, "hierarchical");
    if (rank == 0) first = output;
  });
  return first;
}

struct Placement {
  const char* topology;      // as FERRULE_TOPOLOGY would say it
  std::vector<int> host_of;  // by rank
};

/// Runs `body` in a process for each rank, on its host.
void run_on_hosts(const TwoHosts& hosts, const Placement& placement, const RankBody& body) {
  const auto size = static_cast<int>(placement.host_of.size());
  const std::string place = "tcp://" + TwoHosts::address(placement.host_of[0]) + ":29433";
  std::vector<pid_t> ranks;
  std::fflush(nullptr);
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (!hosts.enter(placement.host_of[static_cast<std::size_t>(rank)])) ::_exit(2);
      be_rank(rank, size, place, body);
    }
    ranks.push_back(child);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(ranks[rank], &status, 0), ranks[rank]);
    EXPECT_EQ(status, 0) << "rank " << rank << " of " << size << " failed";
  }
}

TEST(Hosts, AreFoundAndGiveTheResultOfTheirTopology) {
  const TwoHosts hosts;
  if (!hosts.why_not().empty()) GTEST_SKIP() << hosts.why_not();
  const Placement kPlacements[] = {{"2x2", {0, 0, 1, 1}}, {"1+3", {0, 1, 1, 1}}, {"0,2|1,3", {0, 1, 0, 1}}};
  for (const Placement& placement : kPlacements) {
    SCOPED_TRACE(placement.topology);
    const Ranks inputs = random_ranks(4, kCount, 11);
    const auto compressed = expected(placement.topology, inputs, "none/int4");
    const auto twice = expected(placement.topology, inputs, "int8/int4");
    // Each topology has bits of its own, so that equality says which one was found.
    ASSERT_NE(compressed, expected("1x4", inputs, "none/int4"));
    run_on_hosts(hosts, placement, [&](int rank, Communicator& comm) {
      const auto& input = inputs[static_cast<std::size_t>(rank)];
      EXPECT_EQ(reduce(comm, input, "none/int4", "auto"), compressed);
      EXPECT_EQ(reduce(comm, input, "int4", "hierarchical"), compressed);
      EXPECT_EQ(reduce(comm, input, "int8/int4", "hierarchical"), twice);
      std::vector<float> whole(kCount);
      for (std::size_t i = 0; i < kCount; ++i)
        whole[i] = static_cast<float>((i * 31 + static_cast<std::size_t>(rank)) % 997);
      EXPECT_EQ(reduce(comm, whole, "none", "hierarchical"), reduce(comm, whole, "none", "direct"));
    });
  }
}

}  // namespace
}  // namespace ferrule::testing
