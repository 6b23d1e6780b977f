// `hierarchical` as a whole: topologies of two and more levels, even and uneven, with a codec for each level.
// Results within their bound, the same bits on all ranks, the ledger, and raw sums as `direct` gives them.
#include <limits>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

/// FERRULE_TOPOLOGY while it lives: read when a communicator is made.
class Nodes {
 public:
  explicit Nodes(const std::string& text) { ::setenv("FERRULE_TOPOLOGY", text.c_str(), 1); }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;
  ~Nodes() { ::unsetenv("FERRULE_TOPOLOGY"); }
};

struct Shape {
  const char* topology;
  int world;
};
constexpr Shape kShapes[] = {
    {"1x1", 1},
    {"2x1", 2},
    {"1x2", 2},
    {"1+2", 3},
    {"2x2", 4},
    {"1+3", 4},
    {"0,2|1,3", 4},
    {"0|1||2,3,4", 5},
    {"3+2+2", 7},
    {"2x2x2", 8},
    {"4x2", 8},
    {"1+7", 8},
    {"0|1,2||3,4|||5", 6},
};
constexpr const char* kCodecs[] = {"int4",      "none/int4", "none/int4:round=stochastic", "int8/int4",
                                   "int4/int4", "int8/none", "bf16/int8:block=96",         "none/none"};

AllReduceOptions options_of(const std::string& codec) {
  AllReduceOptions options;
  options.codec = codec;
  options.algorithm = "hierarchical";
  options.seed = 7;
  return options;
}

std::vector<float> reduce(Communicator& comm, const std::vector<float>& input,
                          const AllReduceOptions& options, ReduceOp op = ReduceOp::sum) {
  std::vector<float> data = input;
  const Status status = comm.all_reduce({data.data(), data.size()}, op, options);
  EXPECT_TRUE(status.ok()) << status.text();
  return data;
}

double sum_at(const Ranks& ranks, std::size_t i) {
  double sum = 0.0;
  for (const auto& values : ranks) sum += values[i];
  return sum;
}

class EveryShape : public ::testing::TestWithParam<Shape> {};

void expect_within_bound(const std::string& spec, const Ranks& inputs, const std::vector<float>& output,
                         ReduceOp op) {
  auto codec = Codec::create(spec);
  ASSERT_TRUE(codec.ok()) << codec.status().text();
  double largest = 0.0;
  for (const auto& input : inputs) {
    double most = 0.0;
    for (const float value : input) most = std::max<double>(most, std::fabs(value));
    largest += most;
  }
  double bound = 0.0;
  ASSERT_EQ(ferruleAllReduceErrorBound(codec->handle(), "hierarchical", static_cast<int>(inputs.size()),
                                       ferruleFloat32, static_cast<ferruleRedOp_t>(op), &largest, 1, &bound),
            ferruleSuccess);
  const double divisor = op == ReduceOp::avg ? static_cast<double>(inputs.size()) : 1.0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    ASSERT_LE(std::fabs(output[i] - sum_at(inputs, i) / divisor), bound) << "element " << i;
  }
}

TEST_P(EveryShape, IsWithinBoundAndIdentical) {
  const Nodes nodes(GetParam().topology);
  const int world = GetParam().world;
  run_world(world, [&](int rank, Communicator& comm) {
    for (const std::size_t count : {0UL, 1UL, 129UL, 5003UL}) {
      const Ranks inputs = random_ranks(world, count, static_cast<unsigned>(count) + 1);
      const ReduceOp op = count == 129 ? ReduceOp::avg : ReduceOp::sum;
      for (const std::string codec : kCodecs) {
        SCOPED_TRACE(codec + ", count " + std::to_string(count));
        const auto output = reduce(comm, inputs[static_cast<std::size_t>(rank)], options_of(codec), op);
        expect_within_bound(codec, inputs, output, op);
        expect_identical(comm, output);
        if (HasFatalFailure()) return;
      }
    }
  });
}

TEST_P(EveryShape, RawSumsOfIntegersAreThoseOfDirect) {
  const Nodes nodes(GetParam().topology);
  run_world(GetParam().world, [&](int rank, Communicator& comm) {
    std::vector<float> input(4099);
    for (std::size_t i = 0; i < input.size(); ++i) {
      input[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(rank) * 11) % 1000) - 500.0F;
    }
    AllReduceOptions direct;
    direct.algorithm = "direct";
    direct.codec = "none";
    const auto expected = reduce(comm, input, direct);
    for (const char* codec : {"none", "none/none"})
      EXPECT_EQ(reduce(comm, input, options_of(codec)), expected);
    std::vector<std::int64_t> whole(1001, 1234567891011 + rank);
    std::vector<std::int64_t> other = whole;
    ASSERT_TRUE(comm.all_reduce({whole.data(), whole.size()}, ReduceOp::max, options_of("none")).ok());
    ASSERT_TRUE(comm.all_reduce({other.data(), other.size()}, ReduceOp::max, direct).ok());
    EXPECT_EQ(whole, other);
  });
}

/// Sums over all ranks of their residuals.
std::vector<double> residual_sums(Communicator& comm, const Residual& residual) {
  std::vector<double> sums(residual.values().begin(), residual.values().end());
  EXPECT_TRUE(comm.all_reduce({sums.data(), sums.size()}).ok());
  return sums;
}

void check_ledger(int rank, int world, Communicator& comm, const std::string& codec) {
  constexpr std::size_t kCount = 3001;
  const Residual residual = Residual::create(kCount).value();
  // What another topology has left behind must stay in the books.
  for (std::size_t i = 0; i < kCount; ++i) residual.values()[i] = static_cast<float>(i % 3) * 0.25F;
  AllReduceOptions options = options_of(codec);
  options.residual = &residual;
  for (unsigned step = 0; step < 5; ++step) {
    const std::vector<double> before = residual_sums(comm, residual);
    const std::vector<float> kept(residual.values().begin(), residual.values().end());
    Ranks inputs = random_ranks(world, kCount, step);
    const bool bad = step == 3 && world > 1;
    if (bad) inputs[1][0] = std::numeric_limits<float>::quiet_NaN();
    if (bad) inputs[0][2000] = std::numeric_limits<float>::infinity();
    options.step = step;
    const auto output = reduce(comm, inputs[static_cast<std::size_t>(rank)], options);
    expect_identical(comm, output);
    const std::vector<double> after = residual_sums(comm, residual);
    for (std::size_t i = 0; i < kCount; ++i) {
      if (!std::isfinite(output[i])) {
        ASSERT_TRUE(bad) << "element " << i;
        ASSERT_EQ(residual.values()[i], kept[i]) << "element " << i;
        continue;
      }
      const double in = sum_at(inputs, i) + before[i];
      ASSERT_NEAR(in, output[i] + after[i], 1e-5 * (1.0 + std::fabs(in) + world)) << "element " << i;
    }
    ASSERT_EQ(bad, !std::isfinite(output[0]));
    ASSERT_EQ(bad, !std::isfinite(output[2000]));
    ASSERT_TRUE(std::isfinite(output[1000]));
  }
}

TEST_P(EveryShape, KeepsTheLedger) {
  const Nodes nodes(GetParam().topology);
  run_world(GetParam().world, [&](int rank, Communicator& comm) {
    for (const std::string codec : kCodecs) {
      SCOPED_TRACE(codec);
      check_ledger(rank, GetParam().world, comm, codec);
      if (HasFatalFailure()) return;
    }
  });
}

std::string shape_name(const ::testing::TestParamInfo<Shape>& info) {
  std::string name;
  for (const char c : std::string(info.param.topology)) name += std::isalnum(c) != 0 ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, EveryShape, ::testing::ValuesIn(kShapes), shape_name);

TEST(Hierarchical, OneCodecIsExactInsideANode) {
  const Nodes nodes("2x2");
  auto comms = make_world(4);
  const Ranks inputs = random_ranks(4, 5000, 3);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    const auto& input = inputs[static_cast<std::size_t>(rank)];
    const auto one = reduce(comm, input, options_of("int4"));
    EXPECT_EQ(one, reduce(comm, input, options_of("none/int4")));
    EXPECT_NE(one, reduce(comm, input, options_of("int4/int4")));
    // A list chooses the algorithm, too.
    AllReduceOptions named;
    named.codec = "none/int4";
    named.seed = 7;
    EXPECT_EQ(one, reduce(comm, input, named));
  });
}

// Ranks of one host: nothing leaves the node.
TEST(Hierarchical, OneHostIsExact) {
  auto comms = make_world(3);
  const Ranks inputs = random_ranks(3, 5000, 3);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    const auto& input = inputs[static_cast<std::size_t>(rank)];
    EXPECT_EQ(reduce(comm, input, options_of("none")), reduce(comm, input, options_of("int4")));
  });
}

TEST(Hierarchical, DoesNotDependOnSlices) {
  const Nodes nodes("1+3");
  const Ranks inputs = random_ranks(4, 9001, 5);
  std::vector<std::vector<float>> first(4);
  for (const char* slice : {"512", "3000", "1M"}) {
    ::setenv("FERRULE_SLICE", slice, 1);
    auto comms = make_world(4);
    ::unsetenv("FERRULE_SLICE");
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      const auto r = static_cast<std::size_t>(rank);
      const auto output = reduce(comm, inputs[r], options_of("int8/int4:round=stochastic"));
      if (first[r].empty()) first[r] = output;
      EXPECT_EQ(first[r], output) << "slices of " << slice;
    });
  }
}

// In 16 bits: the error of one rounding to the dtype and of int8 in a sum of four values below 2.
TEST(Hierarchical, TakesHalfPrecision) {
  const Nodes nodes("1+3");
  auto comms = make_world(4);
  for (const char* codec : {"none/int8", "int8/int8", "int8/int4", "int8/none"}) {
    std::vector<std::vector<std::uint16_t>> data(4, std::vector<std::uint16_t>(3001));
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      auto& mine = data[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < mine.size(); ++i) {
        mine[i] = static_cast<std::uint16_t>(0x3f80 + i % 64);  // bf16 from 1 to 1.5
      }
      const Status status =
          comm.all_reduce({mine.data(), mine.size(), DType::bf16}, ReduceOp::avg, options_of(codec));
      EXPECT_TRUE(status.ok()) << status.text();
    });
    for (std::size_t i = 0; i < 3001; ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(data[0][i]) << 16;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      EXPECT_NEAR(value, 1.0 + static_cast<double>(i % 64) / 128.0, 0.25) << codec << " element " << i;
    }
    for (const auto& each : data) EXPECT_EQ(each, data[0]) << codec;
  }
}

Status status_of(Communicator& comm, const std::string& codec, const std::string& algorithm) {
  std::vector<float> data(1000, 1.0F);
  AllReduceOptions options;
  options.codec = codec;
  options.algorithm = algorithm;
  return comm.all_reduce({data.data(), data.size()}, ReduceOp::sum, options);
}

TEST(Hierarchical, ListsThatDoNotFitAreErrorsThatSayWhy) {
  const Nodes nodes("1x1");
  auto comms = make_world(1);
  const Status flat = status_of(comms[0], "none/int4", "direct");
  EXPECT_EQ(flat.code(), ErrorCode::invalid_argument);
  EXPECT_NE(flat.text().find("'direct' has no levels"), std::string::npos) << flat.text();
  const Status many = status_of(comms[0], "none/none/int4", "hierarchical");
  EXPECT_EQ(many.code(), ErrorCode::invalid_argument);
  EXPECT_NE(many.text().find("for 3 levels, and the topology (0) has 2"), std::string::npos) << many.text();
  for (const char* bad : {"none/", "/int4", "none//int4", "none/int5:x=1", "/"}) {
    EXPECT_EQ(status_of(comms[0], bad, "hierarchical").code(), ErrorCode::invalid_argument) << bad;
  }
  EXPECT_EQ(status_of(comms[0], "none/none/none/none/none/none/none/none/none", "auto").code(),
            ErrorCode::invalid_argument);
}

TEST(Hierarchical, ABadTopologyIsAnError) {
  const Nodes nodes("2x3");
  const auto comms = Communicator::local(4);
  ASSERT_FALSE(comms.ok());
  EXPECT_EQ(comms.status().code(), ErrorCode::invalid_argument);
  EXPECT_NE(comms.status().text().find("it has 6 ranks, the world 4"), std::string::npos)
      << comms.status().text();
}

// A codec by itself encodes as the last of the list.
TEST(Hierarchical, AListIsACodec) {
  auto list = Codec::create("none/int4");
  auto alone = Codec::create("int4");
  ASSERT_TRUE(list.ok() && alone.ok());
  EXPECT_EQ(list->spec(), "none/" + alone->spec());
  EXPECT_EQ(*list->encoded_bytes(1000), *alone->encoded_bytes(1000));
  EXPECT_EQ(Codec::create("int8:block=96/int4:block=128")->block(), 384u);
}

}  // namespace
}  // namespace ferrule::testing
