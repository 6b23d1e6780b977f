// Worker threads change how fast a collective is, never what comes out of it.
#include "core/world.hpp"

namespace ferrule::testing {
namespace {

struct Outcome {
  std::vector<float> sums;
  std::vector<float> residual;
};

std::vector<Outcome> reduce(const char* threads, const std::string& algorithm, const std::string& codec) {
  ::setenv("FERRULE_THREADS", threads, 1);
  ::setenv("FERRULE_SLICE", "4K", 1);  // many slices
  auto comms = make_world(3);
  ::unsetenv("FERRULE_THREADS");
  ::unsetenv("FERRULE_SLICE");
  std::vector<Outcome> outcomes(comms.size());
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    std::vector<float> values = random_values(100'003, static_cast<unsigned>(rank) + 5);
    auto residual = Residual::create(values.size());
    ASSERT_TRUE(residual.ok());
    AllReduceOptions options;
    options.codec = codec;
    options.algorithm = algorithm;
    options.residual = &*residual;
    for (options.step = 0; options.step < 3; ++options.step) {
      const Status status = comm.all_reduce({values.data(), values.size()}, ReduceOp::avg, options);
      ASSERT_TRUE(status.ok()) << status.text();
    }
    outcomes[static_cast<std::size_t>(rank)] = {values,
                                                {residual->values().begin(), residual->values().end()}};
  });
  return outcomes;
}

class Threads : public ::testing::TestWithParam<std::string> {};

TEST_P(Threads, AnyNumberOfThemGivesTheSameBits) {
  for (const std::string& algorithm : all_algorithms()) {
    const auto alone = reduce("1", algorithm, GetParam());
    const auto together = reduce("3", algorithm, GetParam());
    for (std::size_t rank = 0; rank < alone.size(); ++rank) {
      EXPECT_EQ(alone[rank].sums, together[rank].sums) << algorithm << ", rank " << rank;
      EXPECT_EQ(alone[rank].residual, together[rank].residual) << algorithm << ", rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, Threads, ::testing::Values("none", "bf16", "int4", "int3"), word_name);

}  // namespace
}  // namespace ferrule::testing
