// Disagreements: each is an error on every rank, within two seconds, that names both values; afterwards the
// communicator works as before.
#include <chrono>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Side {
  std::size_t count = 1000;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::string codec = "none";
  std::string algorithm = "direct";
  std::uint64_t seed = 0;
};

struct Disagreement {
  const char* name;
  const char* field;
  Side odd;
  const char* one;
  const char* other;
};

const Disagreement kDisagreements[] = {
    {"count", "count", {.count = 1001}, "count is 1001", "1000"},
    {"empty", "count", {.count = 0}, "count is 0", "1000"},
    {"dtype", "dtype", {.dtype = DType::i32}, "dtype is i32", "f32"},
    {"op", "op", {.op = ReduceOp::max}, "op is max", "sum"},
    {"codec", "codec", {.codec = "int4"}, "codec is int4", "none"},
    {"algorithm", "algorithm", {.algorithm = "ring"}, "algorithm is ring", "direct"},
    {"seed", "seed", {.seed = 9}, "seed is 9", "0"},
};

class Agreement : public ::testing::TestWithParam<Disagreement> {
 protected:
  static Status call(Communicator& comm, const Side& side) {
    std::vector<double> buffer(2048, 0.0);
    AllReduceOptions options;
    options.codec = side.codec;
    options.algorithm = side.algorithm;
    options.seed = side.seed;
    return comm.all_reduce({buffer.data(), side.count, side.dtype}, side.op, options);
  }

  static void expect_named(const Status& status) {
    EXPECT_EQ(status.code(), ErrorCode::mismatch) << status.text();
    const Disagreement& param = GetParam();
    std::string text = status.text();
    const std::string swapped = std::string(param.field) + " is " + param.other;
    const bool either = text.find(param.one) != std::string::npos || text.find(swapped) != std::string::npos;
    EXPECT_TRUE(either) << text;
    EXPECT_NE(text.find(param.other), std::string::npos) << text;
  }

  // `warm`: all ranks have agreed on both plans before, so that the disagreement shows only in the data.
  static void disagree(int world, int odd_rank, bool warm) {
    auto comms = make_world(world);
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      if (warm) {
        EXPECT_TRUE(call(comm, {}).ok());
        EXPECT_TRUE(call(comm, GetParam().odd).ok());
      }
      const auto start = Clock::now();
      expect_named(call(comm, rank == odd_rank ? GetParam().odd : Side{}));
      EXPECT_LT(Clock::now() - start, std::chrono::seconds(4));  // two, and slack for a crowded machine
      for (int again = 0; again < 3; ++again) {
        std::vector<float> data(5000, 1.0F);
        const Status status = comm.all_reduce({data.data(), data.size()});
        EXPECT_TRUE(status.ok()) << status.text();
        EXPECT_EQ(data[4999], static_cast<float>(world));
      }
    });
  }
};

TEST_P(Agreement, NewPlansAreComparedBeforeDataMoves) {
  for (const int world : {2, 3, 5}) {
    for (int odd = 0; odd < world; odd += world - 1) disagree(world, odd, false);
  }
}

TEST_P(Agreement, KnownPlansAreComparedByEveryMessage) {
  for (const int world : {2, 4}) disagree(world, 1, true);
}

INSTANTIATE_TEST_SUITE_P(Everything, Agreement, ::testing::ValuesIn(kDisagreements),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace ferrule::testing
