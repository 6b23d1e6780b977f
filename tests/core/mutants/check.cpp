// Checks of a whole all-reduce, as a program that says what it caught: run on the library as it is and on
// each mutant.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ferrule/ferrule.hpp"

namespace {

using namespace ferrule;

constexpr int kWorld = 4;
constexpr std::size_t kCount = 5003;
using Ranks = std::vector<std::vector<float>>;

[[noreturn]] void caught(const std::string& what) {
  std::printf("caught: %s\n", what.c_str());
  std::fflush(stdout);
  ::_exit(1);
}

Ranks random_ranks(unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  Ranks ranks(kWorld, std::vector<float>(kCount));
  for (auto& values : ranks) {
    for (float& value : values) value = normal(engine);
  }
  return ranks;
}

struct Setup {
  std::string algorithm = "direct";
  std::string codec = "int4";
  ReduceOp op = ReduceOp::sum;
};

/// A world with a residual a rank.
class World {
 public:
  explicit World(const std::string& fault = "") {
    CommunicatorConfig config;
    config.fault = fault;
    config.timeout = std::chrono::seconds(3);
    auto made = Communicator::local(kWorld, config);
    if (!made.ok()) caught("no world: " + made.status().text());
    comms_ = std::move(made).value();
    for (int rank = 0; rank < kWorld; ++rank) residuals_.push_back(Residual::create(kCount).value());
  }

  std::vector<Status> reduce(const Setup& setup, Ranks& data) {
    return on_all([&](std::size_t rank) {
      AllReduceOptions options;
      options.codec = setup.codec;
      options.algorithm = setup.algorithm;
      options.residual = &residuals_[rank];
      return comms_[rank].all_reduce({data[rank].data(), kCount}, setup.op, options);
    });
  }

  std::vector<Status> on_all(const std::function<Status(std::size_t)>& body) {
    std::vector<Status> statuses(kWorld);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < kWorld; ++rank) {
      threads.emplace_back([&, rank] { statuses[rank] = body(rank); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  Ranks residuals() const {
    Ranks values;
    for (const Residual& residual : residuals_) {
      const auto span = residual.values();
      values.emplace_back(span.begin(), span.end());
    }
    return values;
  }
  /// Leaves something in every residual.
  void delay() {
    for (const Residual& residual : residuals_) {
      for (std::size_t i = 0; i < kCount; ++i) residual.values()[i] = 0.25F * static_cast<float>(i % 3);
    }
  }
  Communicator& comm(std::size_t rank) { return comms_[rank]; }

 private:
  std::vector<Communicator> comms_;
  std::vector<Residual> residuals_;
};

double sum_at(const Ranks& ranks, std::size_t i) {
  double sum = 0.0;
  for (const auto& values : ranks) sum += values[i];
  return sum;
}

void expect_ok(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) {
    if (!status.ok()) caught("an error where none was due: " + status.text());
  }
}

void expect_identical(const Ranks& data) {
  for (const auto& values : data) {
    if (std::memcmp(values.data(), data[0].data(), kCount * sizeof(float)) != 0) caught("ranks differ");
  }
}

void check_values(const Setup& setup) {
  World world;
  const Ranks inputs = random_ranks(1);
  Ranks outputs = inputs;
  expect_ok(world.reduce(setup, outputs));
  // Largest magnitudes are below 6 on each rank: a loose bound, but every planted fault is far outside of it.
  auto codec = Codec::create(setup.codec);
  double bound = 6.0 * kWorld;
  static_cast<void>(ferruleAllReduceErrorBound(codec->handle(), setup.algorithm.c_str(), kWorld,
                                               ferruleFloat32, static_cast<ferruleRedOp_t>(setup.op), &bound,
                                               1, &bound));
  const double divisor = setup.op == ReduceOp::avg ? kWorld : 1.0;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (std::fabs(outputs[0][i] - sum_at(inputs, i) / divisor) > bound) {
      caught("outside the bound with " + setup.algorithm + " " + setup.codec);
    }
  }
  expect_identical(outputs);
}

void check_ledger(const Setup& setup) {
  World world;
  world.delay();
  for (unsigned step = 0; step < 5; ++step) {
    const Ranks before = world.residuals();
    const Ranks inputs = random_ranks(step);
    Ranks outputs = inputs;
    expect_ok(world.reduce(setup, outputs));
    const Ranks after = world.residuals();
    for (std::size_t i = 0; i < kCount; ++i) {
      const double in = sum_at(inputs, i) + sum_at(before, i);
      if (std::fabs(in - outputs[0][i] - sum_at(after, i)) > 1e-4)
        caught("the ledger with " + setup.algorithm);
    }
    expect_identical(outputs);
  }
}

void check_bad_values(const Setup& setup) {
  World world;
  Ranks data = random_ranks(3);
  expect_ok(world.reduce(setup, data));
  const Ranks before = world.residuals();
  data = random_ranks(4);
  data[1][70] = std::numeric_limits<float>::quiet_NaN();
  data[2][700] = -std::numeric_limits<float>::infinity();
  expect_ok(world.reduce(setup, data));
  const Ranks after = world.residuals();
  for (std::size_t i = 0; i < kCount; ++i) {
    if (std::isfinite(data[0][i])) continue;
    for (std::size_t rank = 0; rank < kWorld; ++rank) {
      if (before[rank][i] != after[rank][i]) caught("a residual changed where nothing was delivered");
    }
  }
}

void check_slices() {
  Ranks first;
  for (const char* slice : {"200", "100000"}) {
    ::setenv("FERRULE_SLICE", slice, 1);
    World world;
    ::unsetenv("FERRULE_SLICE");
    Ranks data = random_ranks(5);
    expect_ok(world.reduce({"direct", "int4:round=stochastic", ReduceOp::sum}, data));
    if (first.empty()) first = data;
    if (data != first) caught("the result depends on slices");
  }
}

void check_failure() {
  ::setenv("FERRULE_CHECKSUM", "1", 1);
  World world("corrupt_payload:nth=2,rank=1");
  ::unsetenv("FERRULE_CHECKSUM");
  const Ranks before = world.residuals();
  Ranks data = random_ranks(6);
  const std::vector<Status> statuses = world.reduce({}, data);
  bool failed = false;
  for (std::size_t rank = 0; rank < kWorld; ++rank) failed = failed || !statuses[rank].ok();
  if (!failed) caught("a corrupt payload was accepted");
  const Ranks after = world.residuals();
  for (std::size_t rank = 0; rank < kWorld; ++rank) {
    if (!statuses[rank].ok() && before[rank] != after[rank]) caught("a failed collective changed a residual");
  }
}

void check_disagreement() {
  World world;
  const auto statuses = world.on_all([&](std::size_t rank) {
    std::vector<float> data(2000, 1.0F);
    return world.comm(rank).all_reduce({data.data(), rank == 1 ? std::size_t{1001} : std::size_t{1000}});
  });
  for (const Status& status : statuses) {
    const bool both =
        status.text().find("1000") != std::string::npos && status.text().find("1001") != std::string::npos;
    if (status.code() != ErrorCode::mismatch || !both) caught("a disagreement does not name both values");
  }
}

// A node of one rank and one of three.
void check_levels() {
  ::setenv("FERRULE_TOPOLOGY", "1+3", 1);
  for (const char* codec : {"int4/int8", "none/int4", "int8/none", "none/none"}) {
    check_values({"hierarchical", codec, ReduceOp::avg});
    check_ledger({"hierarchical", codec, ReduceOp::sum});
  }
  check_bad_values({"hierarchical", "int8/none", ReduceOp::sum});
  ::unsetenv("FERRULE_TOPOLOGY");
}

}  // namespace

int main() {
  for (const char* algorithm : {"direct", "ring", "tree", "recursive_doubling", "one_shot", "hierarchical"}) {
    for (const char* codec : {"none", "int8", "int4:round=stochastic"}) {
      check_values({algorithm, codec, ReduceOp::avg});
    }
    check_ledger({algorithm, "int4", ReduceOp::sum});
  }
  check_values({"recursive_doubling", "int4:round=stochastic", ReduceOp::sum});
  check_bad_values({});
  check_levels();
  check_slices();
  check_failure();
  check_disagreement();
  std::printf("nothing to find\n");
  return 0;
}
