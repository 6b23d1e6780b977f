// The cost model: shapes counted from schedules against their closed forms, and what follows from them.
#include "plan/cost_model.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/selection.hpp"

namespace ferrule::plan {
namespace {

const collectives::AlgorithmDesc& algorithm(std::string_view name) {
  return *collectives::find_algorithm(name);
}

Situation raw_sum(std::int32_t world, std::size_t bytes) {
  Situation situation;
  situation.world = world;
  situation.count = bytes / sizeof(float);
  situation.encoded_bytes = bytes;
  return situation;
}

TEST(CostModel, ShapesAreThoseOfTheClosedForms) {
  for (const std::int32_t world : {2, 3, 4, 7, 8, 32}) {
    const double n = world;
    const Shape direct = shape_of(algorithm("direct"), world);
    EXPECT_EQ(direct.messages, 2U * (static_cast<std::uint32_t>(world) - 1));
    EXPECT_DOUBLE_EQ(direct.sent, 2 * (n - 1) / n);
    EXPECT_DOUBLE_EQ(direct.encoded, 1);
    const Shape ring = shape_of(algorithm("ring"), world);
    EXPECT_EQ(ring.messages, 2U * (static_cast<std::uint32_t>(world) - 1));
    EXPECT_DOUBLE_EQ(ring.sent, 2 * (n - 1) / n);
    const Shape one_shot = shape_of(algorithm("one_shot"), world);
    EXPECT_DOUBLE_EQ(one_shot.sent, n - 1);
    EXPECT_DOUBLE_EQ(one_shot.decoded, n + 1);  // every contribution, its own too, and the store of the sum
  }
  EXPECT_EQ(shape_of(algorithm("direct"), 1).messages, 0U);
}

TEST(CostModel, PredictsTheSumOfItsParts) {
  const LinkModel link{10e-6, 2e-6, 1e-9};
  Situation situation = raw_sum(4, 1 << 20);
  const Shape shape = shape_of(algorithm("direct"), 4);
  // Each of the 6 messages carries 256 KiB, in five slices of 64,512 bytes at most.
  const double wire_s = 1.5 * (1 << 20) * 1e-9;
  EXPECT_NEAR(predict_seconds(shape, 2, situation, link), 2 * 10e-6 + 5 * 6 * 2e-6 + wire_s, 1e-12);
  situation.codec = {1e-9, 2e-9};
  const double codec_s = static_cast<double>(situation.count) * (shape.encoded * 1e-9 + shape.decoded * 2e-9);
  EXPECT_NEAR(predict_seconds(shape, 2, situation, link), 2 * 10e-6 + 5 * 6 * 2e-6 + wire_s + codec_s, 1e-12);
}

TEST(CostModel, BreakEvenIsWhereBothAreEquallyFast) {
  Situation coded = raw_sum(4, 64 << 20);
  const Situation raw = coded;
  coded.encoded_bytes = raw.encoded_bytes * 33 / 256;
  coded.slice_bytes = raw.encoded_bytes;  // messages cost nothing here
  coded.exact = false;
  coded.codec = {0.75e-9, 0.33e-9};
  const LinkModel link{0, 0, break_even_byte_s(coded, raw.encoded_bytes)};
  const Shape shape = shape_of(algorithm("direct"), 4);
  EXPECT_NEAR(predict_seconds(shape, 2, coded, link) / predict_seconds(shape, 2, raw, link), 1, 1e-9);
  EXPECT_TRUE(std::isinf(break_even_byte_s(raw, raw.encoded_bytes)));
}

TEST(CostModel, SlicesFillTheLink) {
  const Shape shape = shape_of(algorithm("direct"), 4);
  // 6 messages of 125,000 bytes at 1 Gbit/s: 6 ms a slice; two rounds of 50 ms hold 17 of them.
  EXPECT_EQ(slices_to_fill(shape, 2, 125000, {50e-3, 0, 8e-9}, 4), 4U + 17U);
  EXPECT_EQ(slices_to_fill(shape, 2, 125000, {0, 0, 8e-9}, 4), 4U);
  EXPECT_EQ(slices_to_fill(shape, 2, 0, {50e-3, 0, 8e-9}, 4), 4U);
  EXPECT_LE(slices_to_fill(shape, 2, 1, {1e6, 0, 1e-12}, 4), 2000U);
}

}  // namespace
}  // namespace ferrule::plan
