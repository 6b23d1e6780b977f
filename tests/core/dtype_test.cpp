// Every dtype and operation, exact, over every algorithm; and the typed refusal of what a lossy codec cannot
// do.
#include <cstdint>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

constexpr int kWorld = 4;
constexpr std::size_t kCount = 777;

double expected(ReduceOp op, std::size_t i) {
  double sum = 0.0;
  double prod = 1.0;
  double low = 1e9;
  double high = -1e9;
  for (int rank = 0; rank < kWorld; ++rank) {
    const double value = static_cast<double>((i + static_cast<std::size_t>(rank)) % 3 + 1);
    sum += value;
    prod *= value;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  switch (op) {
    case ReduceOp::sum:
      return sum;
    case ReduceOp::avg:
      return sum / kWorld;
    case ReduceOp::min:
      return low;
    case ReduceOp::max:
      return high;
    case ReduceOp::prod:
      return prod;
  }
  return 0.0;
}

// Values 1, 2 and 3 and their results are exact in every dtype, so bits can be compared. f16 and bf16 of
// them:
std::uint16_t to_f16(double value) {
  int exponent = 0;
  const double fraction =
      std::frexp(value, &exponent);  // value = fraction * 2^exponent, fraction in [0.5, 1)
  return static_cast<std::uint16_t>(((exponent + 14) << 10) + static_cast<int>(fraction * 2048.0) - 1024);
}
std::uint16_t to_bf16(double value) {
  const auto single = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &single, 4);
  return static_cast<std::uint16_t>(bits >> 16);
}

template <class T>
void store(std::vector<std::byte>& bytes, std::size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

std::vector<std::byte> fill(DType dtype, const std::function<double(std::size_t)>& value) {
  std::vector<std::byte> bytes(kCount * element_bytes(dtype));
  for (std::size_t i = 0; i < kCount; ++i) {
    const double x = value(i);
    switch (dtype) {
      case DType::f32:
        store(bytes, i, static_cast<float>(x));
        break;
      case DType::f64:
        store(bytes, i, x);
        break;
      case DType::f16:
        store(bytes, i, to_f16(x));
        break;
      case DType::bf16:
        store(bytes, i, to_bf16(x));
        break;
      case DType::i32:
        store(bytes, i, static_cast<std::int32_t>(x));
        break;
      case DType::i64:
        store(bytes, i, static_cast<std::int64_t>(x));
        break;
      case DType::u8:
        store(bytes, i, static_cast<std::uint8_t>(x));
        break;
    }
  }
  return bytes;
}

TEST(DTypes, EveryOperationIsExactWithEveryAlgorithm) {
  auto comms = make_world(kWorld);
  std::vector<std::string> algorithms = split_names(ferruleAlgorithmNames());
  algorithms.push_back("auto");
  for (const std::string& algorithm : algorithms) {
    for (int d = 0; d < kDTypeCount; ++d) {
      for (int o = 0; o < kReduceOpCount; ++o) {
        const auto dtype = static_cast<DType>(d);
        const auto op = static_cast<ReduceOp>(o);
        SCOPED_TRACE(algorithm + " " + std::string(dtype_name(dtype)) + " " + std::string(op_name(op)));
        const auto want = fill(dtype, [&](std::size_t i) { return expected(op, i); });
        on_all_ranks(comms, [&](int rank, Communicator& comm) {
          auto data = fill(dtype, [&](std::size_t i) {
            return static_cast<double>((i + static_cast<std::size_t>(rank)) % 3 + 1);
          });
          AllReduceOptions options;
          options.algorithm = algorithm;
          const Status status = comm.all_reduce({data.data(), kCount, dtype}, op, options);
          EXPECT_TRUE(status.ok()) << status.text();
          EXPECT_EQ(data, want);
        });
      }
    }
  }
}

TEST(DTypes, LossyCodecsTakeHalfPrecision) {
  auto comms = make_world(kWorld);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::vector<std::vector<std::byte>> data(kWorld);
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      auto& mine = data[static_cast<std::size_t>(rank)];
      mine = fill(dtype, [&](std::size_t i) { return static_cast<double>(i % 5) + rank; });
      AllReduceOptions options;
      options.codec = "int8";
      const Status status = comm.all_reduce({mine.data(), kCount, dtype}, ReduceOp::avg, options);
      EXPECT_TRUE(status.ok()) << status.text();
    });
    for (const auto& each : data) EXPECT_EQ(each, data[0]);
  }
}

TEST(DTypes, LossyCodecsRefuseWhatTheyCannotDo) {
  auto comms = make_world(1);
  std::vector<double> doubles(kCount, 1.0);
  std::vector<float> floats(kCount, 1.0F);
  AllReduceOptions options;
  options.codec = "int4";
  const Status narrowed = comms[0].all_reduce({doubles.data(), kCount}, ReduceOp::sum, options);
  EXPECT_EQ(narrowed.code(), ErrorCode::unsupported);
  EXPECT_NE(narrowed.text().find("f64"), std::string::npos) << narrowed.text();
  const Status maximum = comms[0].all_reduce({floats.data(), kCount}, ReduceOp::max, options);
  EXPECT_EQ(maximum.code(), ErrorCode::unsupported);
  EXPECT_NE(maximum.text().find("max"), std::string::npos) << maximum.text();
}

TEST(DTypes, DefaultCodecIsUsedOnlyWhereItFits) {
  CommunicatorConfig config;
  config.codec = "int4";
  auto comms = make_world(2, config);
  on_all_ranks(comms, [&](int, Communicator& comm) {
    std::vector<std::int64_t> integers(50000, 1234567891011);
    EXPECT_TRUE(comm.all_reduce({integers.data(), integers.size()}).ok());
    EXPECT_EQ(integers[49999], 2 * 1234567891011);
    std::vector<float> small(100, 0.1F);
    EXPECT_TRUE(comm.all_reduce({small.data(), small.size()}).ok());
    EXPECT_EQ(small[99], 0.2F);
    std::vector<float> large(1 << 16, 0.1F);
    const auto before = comm.stats().bytes_sent;
    EXPECT_TRUE(comm.all_reduce({large.data(), large.size()}).ok());
    EXPECT_LT(comm.stats().bytes_sent - before, large.size());  // a quarter of the raw half, and less
  });
}

}  // namespace
}  // namespace ferrule::testing
