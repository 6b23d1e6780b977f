// A reference interpreter: runs the schedules of all ranks in one thread on numbers, one double a chunk. It
// shares nothing with the executor and nothing with the verifier but the meaning of the steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "collectives/schedule.hpp"

namespace ferrule::collectives::test {

/// What one rank holds, by chunk.
struct Numbers {
  std::vector<double> input;
  std::vector<double> residual;
  std::vector<double> output;
};

/// encode-then-decode of one value.
using Round = std::function<double(double)>;

class Interpreter {
 public:
  Interpreter(std::span<const Schedule> schedules, Round round)
      : schedules_(schedules), round_(std::move(round)), walks_(schedules.size()) {}

  /// Fills in outputs and residuals. Returns whether all ranks have come to their end.
  bool run(std::vector<Numbers>& ranks) {
    for (std::size_t rank = 0; rank < walks_.size(); ++rank) {
      walks_[rank] = {0, std::vector<double>(schedules_[rank].slots),
                      std::vector<double>(schedules_[rank].chunks)};
      ranks[rank].output.assign(schedules_[rank].chunks, 0.0);
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < walks_.size(); ++rank) moved = advance(rank, ranks[rank]) || moved;
    }
    for (std::size_t rank = 0; rank < walks_.size(); ++rank) {
      if (walks_[rank].next < schedules_[rank].steps.size()) return false;
    }
    return true;
  }

 private:
  struct Walk {
    std::size_t next = 0;
    std::vector<double> slots;
    std::vector<double> sums;
  };

  bool advance(std::size_t rank, Numbers& numbers) {
    Walk& walk = walks_[rank];
    const auto& steps = schedules_[rank].steps;
    const std::size_t start = walk.next;
    while (walk.next < steps.size() && execute(static_cast<std::int32_t>(rank), steps[walk.next], numbers)) {
      ++walk.next;
    }
    return walk.next != start;
  }

  double encode(const Step& step, double value, double& residual) const {
    const double with = step.error == ErrorKept::add ? value + residual : value;
    const double rounded = round_(with);
    if (step.error == ErrorKept::add) residual = with - rounded;
    if (step.error == ErrorKept::charge) residual += with - rounded;
    return rounded;
  }

  // false: the bytes are not there yet.
  bool execute(std::int32_t rank, const Step& step, Numbers& numbers) {
    Walk& walk = walks_[rank];
    double& sum = walk.sums[step.chunk];
    const double input = numbers.input[step.chunk];
    double& residual = numbers.residual[step.chunk];
    switch (step.operation) {
      case Operation::encode:
        walk.slots[step.slot] = encode(step, step.from == kSum ? std::exchange(sum, 0.0) : input, residual);
        return true;
      case Operation::hop:
        walk.slots[step.slot] = encode(step, walk.slots[step.from] + input, residual);
        return true;
      case Operation::send:
        wire_[{rank, step.peer}].push_back(walk.slots[step.slot]);
        return true;
      case Operation::recv:
        return receive(wire_[{step.peer, rank}], walk.slots[step.slot]);
      case Operation::decode_add:
        sum += step.slot == kOwnInput ? input : walk.slots[step.slot];
        return true;
      case Operation::decode:
        numbers.output[step.chunk] = step.slot == kSum ? sum : walk.slots[step.slot];
        return true;
    }
    return false;
  }

  static bool receive(std::deque<double>& queue, double& slot) {
    if (queue.empty()) return false;
    slot = queue.front();
    queue.pop_front();
    return true;
  }

  std::span<const Schedule> schedules_;
  Round round_;
  std::vector<Walk> walks_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::deque<double>> wire_;
};

}  // namespace ferrule::collectives::test
