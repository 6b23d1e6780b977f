// The example algorithm of docs/extending.md is right, and is what the page says of it.
#include <gtest/gtest.h>

#include "collectives/verify.hpp"

namespace ferrule::collectives {

AlgorithmDesc gather_scatter_algorithm();

namespace {

TEST(ExampleAlgorithm, IsProved) {
  for (std::int32_t world = 1; world <= 16; ++world) {
    const Report report = verify(gather_scatter_algorithm(), world);
    ASSERT_TRUE(report.ok()) << "world " << world << ": " << report.status().text();
  }
}

TEST(ExampleAlgorithm, HasTheClosedFormsOfThePage) {
  const AlgorithmDesc algorithm = gather_scatter_algorithm();
  EXPECT_EQ(algorithm.build(3, 8).chunks, 1u);
  EXPECT_EQ(algorithm.encodes(8), 2u);
  EXPECT_EQ(algorithm.chunks_sent(8), 7u);
}

}  // namespace
}  // namespace ferrule::collectives
