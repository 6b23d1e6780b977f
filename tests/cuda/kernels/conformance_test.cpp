// The kernels against the codecs on the CPU, bit for bit: every operation (first encodes, residuals, hops,
// reduce, decode, decode_add, averages) over the vectors that the CPU's codecs are tested with.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "codec/harness.hpp"
#include "codec/vectors.hpp"
#include "cuda/codec_kernels.hpp"
#include "kernels/device_codec.hpp"
#include "kernels/device_memory.hpp"

namespace ferrule::cuda::testing {
namespace {

using namespace codec::testing;

class KernelConformance : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
    host_ = make_or_fail(GetParam());
    ASSERT_NE(host_, nullptr);
    if (!find_kernels(*host_)) GTEST_SKIP() << GetParam() << " has no kernels";
    device_ = on_device(host_);
  }

  void expect_equal(const Case& at, std::uint64_t schedule) {
    choose_schedule(schedule);
    const std::string difference = first_difference(transcript(*host_, at), transcript(*device_, at));
    EXPECT_EQ(difference, "") << at.describe() << ", schedule " << schedule;
  }

  std::shared_ptr<const codec::Codec> host_;
  std::unique_ptr<const codec::Codec> device_;
};

// Each schedule has another length, kind of values and alignment; between them they meet in many
// combinations.
TEST_P(KernelConformance, EqualsTheCpuInFiftySchedules) {
  const std::size_t block = host_->block();
  const std::size_t lengths[] = {
      0, 1, 31, 32, 33, block - 1, block, block + 1, 2 * block + 5, 1024 + block / 2 + 3};
  for (std::uint64_t schedule = 0; schedule < 50; ++schedule) {
    // Codecs start at different places of the table.
    const std::uint64_t mix = schedule + 7 * GetParam().size() + static_cast<std::uint8_t>(GetParam().back());
    const Case at{kFloatTypes[schedule % 3], lengths[mix % std::size(lengths)],
                  kAllValues[mix / 2 % std::size(kAllValues)], (5 * mix) % 16, (mix / 3) % 4};
    expect_equal(at, schedule);
    if (HasFailure()) return;
  }
}

// Several thread blocks, each with all its warps at work.
TEST_P(KernelConformance, ManyTiles) {
  expect_equal({DType::f32, 5120, Values::normal, 0, 0}, 100);
  expect_equal({DType::bf16, 4099, Values::mixed, 3, 1}, 101);
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registry, KernelConformance, ::testing::ValuesIn(specs_under_test()), test_name);

// A codec without kernels is skipped above; this is where it has to be admitted.
TEST(Kernels, WhichCodecsHaveNone) {
  std::vector<std::string> without;
  for (const std::string& name : codec::codec_names()) {
    if (!find_kernels(*make_or_fail(name))) without.push_back(name);
  }
  EXPECT_EQ(without, std::vector<std::string>{"topk"});
}

/// Bytes of a wire that nobody has encoded: kernels must read them as the CPU does, and nothing beside them.
class HostileBytes : public KernelConformance {};

TEST_P(HostileBytes, DecodeAsOnTheCpu) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const Case at{kFloatTypes[seed % 3], 1 + random_bits(seed, 1) % (3 * host_->block()), Values::normal,
                  seed % 16, seed % 4};
    Input hostile{codec::Term::Kind::encoded,
                  std::vector<std::byte>(host_->encoded_bytes(at.length, at.dtype))};
    for (std::size_t i = 0; i < hostile.bytes.size(); ++i) {
      const std::uint64_t bits = random_bits(seed + 100, i);
      hostile.bytes[i] = static_cast<std::byte>(seed % 4 == 0 ? bits | (bits >> 8) | (bits >> 16) : bits);
    }
    const Input mine{codec::Term::Kind::plain,
                     to_elements(make_values(Values::mixed, at.length, seed, at.dtype), at.dtype)};
    choose_schedule(seed);
    const DecodeOptions average{ReduceOp::avg, true, 4, 0};
    EXPECT_EQ(run_decode(*device_, at, {hostile}).elements, run_decode(*host_, at, {hostile}).elements);
    EXPECT_EQ(run_decode(*device_, at, {hostile}).finite, run_decode(*host_, at, {hostile}).finite);
    EXPECT_EQ(run_decode(*device_, at, {mine, hostile}, average).elements,
              run_decode(*host_, at, {mine, hostile}, average).elements);
    EXPECT_EQ(run_encode(*device_, at, {hostile, mine}).wire, run_encode(*host_, at, {hostile, mine}).wire);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, HostileBytes,
                         ::testing::Values("none", "bf16", "fp16", "int2", "int3", "int4", "int5", "int6",
                                           "int7", "int8", "int4:block=96"),
                         test_name);

}  // namespace
}  // namespace ferrule::cuda::testing
