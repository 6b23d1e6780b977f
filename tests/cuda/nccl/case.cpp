#include "cuda/nccl/case.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <utility>

#include "base/trace.hpp"
#include "codec/elements.hpp"
#include "executor/run.hpp"
#include "transport/registry.hpp"

namespace ferrule::testing {
namespace {

std::shared_ptr<const codec::Codec> make_shared_codec(const std::string& text) {
  auto made = codec::make_codec(text);
  EXPECT_TRUE(made.ok()) << made.status().text();
  return std::move(made).value();
}

std::vector<std::byte> to_elements(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> elements(values.size() * element_bytes(dtype));
  if (is_compressible(dtype)) {
    codec::store_elements(values.data(), dtype, 0, values.size(), elements.data());
    return elements;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::f64) {
      const double value = values[i];
      std::memcpy(elements.data() + i * sizeof value, &value, sizeof value);
    } else {
      const auto value = static_cast<std::int32_t>(values[i] * 1000.0F);
      std::memcpy(elements.data() + i * element_bytes(dtype), &value, element_bytes(dtype));
    }
  }
  return elements;
}

transport::Membership membership(int rank, int world, std::uint64_t communicator) {
  transport::Membership who;
  who.rank = rank;
  who.peers.resize(static_cast<std::size_t>(world));
  who.communicator = communicator;
  return who;
}

void run_rank(const Case& what, int rank, std::uint64_t communicator, std::uint64_t step, Tensors& tensors) {
  const auto exchange = [](std::string_view, std::string_view) -> Result<std::vector<std::string>> {
    return std::vector<std::string>{};
  };
  auto made = transport::find_transport("loopback")
                  ->connect(membership(rank, what.world, communicator), exchange,
                            Deadline::after(std::chrono::seconds(60)));
  ASSERT_TRUE(made.ok()) << made.status().text();
  Trace trace("", rank, communicator);
  executor::Run run(**made, trace);
  auto kept = residual::Residual::create(what.count);
  ASSERT_TRUE(kept.ok());
  std::copy(tensors.residual.begin(), tensors.residual.end(), (*kept)->values());
  residual::Spares spare;
  residual::Update update;
  const bool feeds_back = what.feedback && what.world > 1;
  if (feeds_back) {
    ASSERT_TRUE(update.begin(**kept, spare).ok());
  }
  std::vector<std::byte> output(tensors.elements.size());
  executor::Job job;
  job.plan = make_plan(what, rank);
  job.input = tensors.elements.data();
  job.output = what.in_place ? tensors.elements.data() : output.data();
  job.update = &update;
  job.seed = 42;
  job.step = step;
  job.communicator = communicator;
  ASSERT_TRUE(run.start_workers(1).ok());
  Status started = run.start(job);
  ASSERT_TRUE(started.ok()) << started.text();
  const std::atomic<bool> interrupt{false};
  auto done = run.advance(Deadline::after(std::chrono::seconds(60)), interrupt);
  ASSERT_TRUE(done.ok()) << done.status().text();
  ASSERT_TRUE(*done) << "the reference did not end";
  if (!what.in_place) tensors.elements = output;
  if (!feeds_back) return;
  update.commit();
  tensors.residual.assign((*kept)->values(), (*kept)->values() + what.count);
}

}  // namespace

std::string Case::describe() const {
  return fmt::format("{} {} of {}, {} {}, op {}{}{}", codec, algorithm, world, count, dtype_name(dtype),
                     static_cast<int>(op), in_place ? ", in place" : "", feedback ? ", feedback" : "");
}

std::shared_ptr<const collectives::Topology> Case::topology() const {
  if (ranks_a_node == 1) return std::make_shared<const collectives::Topology>(world);
  auto made = collectives::Topology::parse(fmt::format("{}x{}", world / ranks_a_node, ranks_a_node), world);
  EXPECT_TRUE(made.ok()) << made.status().text();
  return std::make_shared<const collectives::Topology>(std::move(made).value());
}

std::shared_ptr<const plan::Plan> make_plan(const Case& what, int rank) {
  plan::Request request;
  request.count = what.count;
  request.dtype = what.dtype;
  request.op = what.op;
  request.codec = make_shared_codec(what.codec);
  request.algorithm = collectives::find_algorithm(what.algorithm);
  plan::Environment environment;
  environment.rank = rank;
  environment.world = what.world;
  environment.slice_bytes = what.slice_bytes;
  environment.topology = what.topology();
  auto plan = plan::Plan::make(request, environment, make_shared_codec("none"));
  EXPECT_TRUE(plan.ok()) << plan.status().text();
  return plan.ok() ? *plan : nullptr;
}

std::vector<Tensors> make_inputs(const Case& what, std::uint64_t step, bool with_infinities) {
  std::vector<Tensors> inputs(static_cast<std::size_t>(what.world));
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    std::mt19937 random(static_cast<unsigned>(7919 * step + 31 * rank + 1));
    std::normal_distribution<float> normal;
    std::vector<float> values(what.count);
    for (float& value : values) value = normal(random);
    if (with_infinities && what.count > 300 && rank == inputs.size() - 1) {
      values[299] = std::numeric_limits<float>::infinity();
      values[5] = std::numeric_limits<float>::quiet_NaN();
    }
    inputs[rank].elements = to_elements(values, what.dtype);
    inputs[rank].residual.resize(what.count);
    for (float& value : inputs[rank].residual) value = 0.01F * normal(random);
  }
  return inputs;
}

std::vector<Tensors> run_on_host(const Case& what, const std::vector<Tensors>& inputs, std::uint64_t step) {
  static std::atomic<std::uint64_t> communicators{0x5eed0000};
  const std::uint64_t communicator = communicators++;
  std::vector<Tensors> tensors = inputs;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < what.world; ++rank) {
    Tensors& own = tensors[static_cast<std::size_t>(rank)];
    ranks.emplace_back([&, rank] { run_rank(what, rank, communicator, step, own); });
  }
  for (std::thread& rank : ranks) rank.join();
  return tensors;
}

std::string difference(const std::vector<Tensors>& got, const std::vector<Tensors>& expected) {
  const auto compare = [](const void* a, const void* b, std::size_t bytes) -> std::string {
    const auto* left = static_cast<const std::byte*>(a);
    const auto* right = static_cast<const std::byte*>(b);
    if (bytes == 0 || std::memcmp(a, b, bytes) == 0) return {};
    std::size_t first = bytes;
    std::size_t count = 0;
    for (std::size_t i = bytes; i-- > 0;) {
      if (left[i] == right[i]) continue;
      first = i;
      ++count;
    }
    return fmt::format("{} of {} bytes differ, the first at {}", count, bytes, first);
  };
  for (std::size_t rank = 0; rank < got.size(); ++rank) {
    const std::string elements =
        compare(got[rank].elements.data(), expected[rank].elements.data(), expected[rank].elements.size());
    if (!elements.empty()) return fmt::format("output of rank {}: {}", rank, elements);
    const std::string residual = compare(got[rank].residual.data(), expected[rank].residual.data(),
                                         expected[rank].residual.size() * sizeof(float));
    if (!residual.empty()) return fmt::format("residual of rank {}: {}", rank, residual);
  }
  return {};
}

}  // namespace ferrule::testing
