// A plan's program, put in the order of a stream: rounds of arithmetic and of messages by turns. Made once
// for a plan.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/rounds.hpp"
#include "ferrule/status.hpp"
#include "plan/plan.hpp"

namespace ferrule::executor {

/// Instructions of one kind and level that do not depend on each other.
struct StreamKernel {
  plan::Instruction::Kind kind = plan::Instruction::Kind::encode;
  std::uint8_t level = 0;
  std::vector<std::uint32_t> instructions;
};

struct StreamRound {
  std::vector<StreamKernel> kernels;         ///< before the messages
  std::vector<std::uint32_t> sends;          ///< instructions
  std::vector<std::uint32_t> receives;       ///< by number
  std::vector<std::uint32_t> gather_chunks;  ///< by rank; empty: not an all-gather
};

class StreamProgram {
 public:
  /// `topology` must be the plan's.
  static Result<std::shared_ptr<const StreamProgram>> make(const plan::Plan& plan,
                                                           const collectives::Topology& topology,
                                                           std::int32_t rank);

  /// The last one has no messages.
  const std::vector<StreamRound>& rounds() const { return rounds_; }
  /// Decodes of results.
  std::uint32_t decodes() const { return decodes_; }

 private:
  StreamProgram() = default;
  void place(const plan::Plan& plan, const collectives::Rounds& rounds);
  void add(StreamRound& round, const plan::Program& program, std::uint32_t number);
  void add_messages(const plan::Program& program, const collectives::Rounds& rounds);

  std::vector<StreamRound> rounds_;
  std::uint32_t decodes_ = 0;
};

}  // namespace ferrule::executor
