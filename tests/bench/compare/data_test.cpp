// The formula of the elements is written twice, here and in torch_worker.py; worker_test.py has these numbers
// too.
#include "bench/compare/workers/data.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ferrule::compare {
namespace {

TEST(CompareData, IsTheFormulaOfThePythonWorkers) {
  std::vector<float> values(6);
  fill(7, 3, 1000, values);
  EXPECT_EQ(values, (std::vector<float>{-23, -100, 2, -50, 86, 40}));
}

TEST(CompareData, AnyPieceIsAPieceOfTheWhole) {
  std::vector<float> whole(100), piece(10);
  fill(1, 0, 0, whole);
  fill(1, 0, 40, piece);
  EXPECT_EQ(piece, std::vector<float>(whole.begin() + 40, whole.begin() + 50));
}

TEST(CompareData, ExpectsTheSumAndEachBlocksMagnitude) {
  std::vector<float> first(4), second(4);
  fill(1, 0, 8, first);
  fill(1, 1, 8, second);
  std::vector<double> sums(4), magnitudes(4);
  expect(1, 2, 2, 8, {sums, magnitudes});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sums[i], first[i] + second[i]);
  const auto largest = [](const std::vector<float>& values, std::size_t block) {
    return std::max(std::abs(values[2 * block]), std::abs(values[2 * block + 1]));
  };
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(magnitudes[i], largest(first, i / 2) + largest(second, i / 2));
}

TEST(CompareData, DigestSeesOneElementAndTheirOrder) {
  const std::vector<float> values{1, 2, 3}, other{1, 2, 4}, swapped{2, 1, 3};
  EXPECT_EQ(digest(values), digest(std::vector<float>{1, 2, 3}));
  EXPECT_NE(digest(values), digest(other));
  EXPECT_NE(digest(values), digest(swapped));
}

}  // namespace
}  // namespace ferrule::compare
