// The identity codec's kernels: every dtype and operation, any bits, any number of terms and any alignment,
// against the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "codec/harness.hpp"
#include "cuda/codec_kernels.hpp"
#include "kernels/device_codec.hpp"
#include "kernels/device_memory.hpp"

namespace ferrule::cuda::testing {
namespace {

using namespace codec::testing;

std::vector<std::byte> random_elements(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> elements(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    // Many zeros and ones among the bytes: NaN, Inf, both zeros and denormals of all types come up.
    const std::uint64_t bits = random_bits(seed, i);
    const std::uint64_t extreme = (bits & 256) != 0 ? 0x00 : 0xff;
    elements[i] = static_cast<std::byte>((bits & 512) != 0 && seed % 2 == 0 ? extreme : bits);
  }
  return elements;
}

class RawKernels : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_P(RawKernels, EqualTheCpu) {
  const auto dtype = static_cast<DType>(std::get<0>(GetParam()));
  const auto op = static_cast<ReduceOp>(std::get<1>(GetParam()));
  const std::shared_ptr<const codec::Codec> host = make_or_fail("none");
  const auto device = on_device(host);
  std::uint64_t schedule = 0;
  for (const std::size_t terms : {1, 2, 3, 8}) {
    for (const std::size_t length : {0, 1, 31, 33, 257, 1500}) {
      const Case at{dtype, length, Values::normal, (5 * terms + length) % 16, 0};
      std::vector<Input> inputs;
      for (std::size_t t = 0; t < terms; ++t) {
        const auto kind = t == terms / 2 ? codec::Term::Kind::plain : codec::Term::Kind::encoded;
        inputs.push_back({kind, random_elements(length * element_bytes(dtype), 10 * t + length + 1)});
      }
      choose_schedule(schedule++);
      const int plain = static_cast<int>(terms / 2);
      for (const bool last : {false, true}) {
        const EncodeOptions encode{Keep::nothing, {}, op, last, 3, {}, true};
        EXPECT_EQ(run_encode(*device, at, inputs, encode).wire, run_encode(*host, at, inputs, encode).wire)
            << "encode of " << terms << ", " << at.describe();
        const DecodeOptions decode{op, last, 3, plain};
        EXPECT_EQ(run_decode(*device, at, inputs, decode).elements,
                  run_decode(*host, at, inputs, decode).elements)
            << "decode of " << terms << ", " << at.describe();
      }
      if (HasFailure()) return;
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<std::tuple<int, int>>& info) {
  return fmt::format("{}_{}", dtype_name(static_cast<DType>(std::get<0>(info.param))),
                     op_name(static_cast<ReduceOp>(std::get<1>(info.param))));
}

INSTANTIATE_TEST_SUITE_P(AllTypesAndOperations, RawKernels,
                         ::testing::Combine(::testing::Range(0, kDTypeCount),
                                            ::testing::Range(0, kReduceOpCount)),
                         test_name);

TEST(Copy, AnyAlignmentOfBothSides) {
  if (!has_device()) GTEST_SKIP() << "no CUDA device";
  for (std::size_t from = 0; from < 16; ++from) {
    for (std::size_t to = 0; to < 16; ++to) {
      const std::size_t bytes = 1 + random_bits(from, to) % 3000;
      const std::vector<std::byte> source = random_elements(bytes + 32, 1);
      std::vector<std::byte> target(bytes + 32, std::byte{7});
      choose_schedule(16 * from + to);
      DeviceBuffers buffers;
      const std::byte* at = buffers.read(source.data(), source.size());
      std::byte* out = buffers.write(target.data(), target.size());
      ASSERT_TRUE(copy(at + from, bytes, out + to, nullptr).ok());
      buffers.finish();
      ASSERT_TRUE(std::equal(target.begin() + static_cast<std::ptrdiff_t>(to),
                             target.begin() + static_cast<std::ptrdiff_t>(to + bytes),
                             source.begin() + static_cast<std::ptrdiff_t>(from)));
      const auto seven = [](std::byte b) { return b == std::byte{7}; };
      EXPECT_TRUE(std::all_of(target.begin(), target.begin() + static_cast<std::ptrdiff_t>(to), seven));
      EXPECT_TRUE(std::all_of(target.begin() + static_cast<std::ptrdiff_t>(to + bytes), target.end(), seven));
    }
  }
}

TEST(Copy, ClearsAWord) {
  if (!has_device()) GTEST_SKIP() << "no CUDA device";
  std::uint32_t words[3] = {1, 2, 3};
  DeviceBuffers buffers;
  ASSERT_TRUE(clear(buffers.write(words, sizeof words) + 1, nullptr).ok());
  buffers.finish();
  EXPECT_EQ(words[0], 1u);
  EXPECT_EQ(words[1], 0u);
  EXPECT_EQ(words[2], 3u);
}

}  // namespace
}  // namespace ferrule::cuda::testing
