// One all-reduce to be tried, and what the CPU makes of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace ferrule::testing {

struct Case {
  std::string codec = "int4:block=128";
  std::string algorithm = "direct";
  int world = 2;
  std::size_t count = 1000;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  bool in_place = false;
  bool feedback = true;
  std::size_t slice_bytes = 700;  ///< several slices
  int ranks_a_node = 1;           ///< hierarchical only

  std::string describe() const;
  std::shared_ptr<const collectives::Topology> topology() const;
};

/// What a rank brings or takes away.
struct Tensors {
  std::vector<std::byte> elements;
  std::vector<float> residual;
};

std::shared_ptr<const plan::Plan> make_plan(const Case& what, int rank);
/// By rank. Values and residuals depend on the rank, the seed and the step; some are not finite if asked for.
std::vector<Tensors> make_inputs(const Case& what, std::uint64_t step, bool with_infinities = false);
/// What the executor for host memory makes of them, over loopback.
std::vector<Tensors> run_on_host(const Case& what, const std::vector<Tensors>& inputs, std::uint64_t step);

/// The same for everybody: "rank 2: 17 of 4000 bytes differ, the first at 128", or empty.
std::string difference(const std::vector<Tensors>& got, const std::vector<Tensors>& expected);

}  // namespace ferrule::testing
