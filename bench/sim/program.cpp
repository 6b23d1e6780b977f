#include "bench/sim/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace ferrule::sim {
namespace {

using collectives::kOwnInput;
using collectives::kSum;
using collectives::Operation;
using collectives::Schedule;
using collectives::Step;

class Writer {
 public:
  Writer(const Schedule& schedule, const Codecs& codecs)
      : schedule_(schedule),
        codecs_(codecs),
        receive_of_(schedule.slots, kNoMessage),
        decoded_alone_(schedule.slots, 0),
        encoded_here_(schedule.slots, 0),
        level_of_(schedule.slots, 0),
        sum_decoded_(schedule.chunks, 0),
        sums_(schedule.chunks) {}

  Result<Program> write() {
    for (const Step& step : schedule_.steps) {
      FERRULE_RETURN_IF_ERROR(look_ahead(step));
    }
    for (const Step& step : schedule_.steps) {
      FERRULE_RETURN_IF_ERROR(write(step));
    }
    return std::move(program_);
  }

 private:
  using Terms = std::vector<std::uint32_t>;

  Status broken(const Step& step, const char* why) const {
    return {ErrorCode::internal, fmt::format("schedule of rank {} of {}: {} ({})", schedule_.rank,
                                             schedule_.world, why, collectives::to_string(step))};
  }

  bool is_slot(std::uint32_t slot) const { return slot < schedule_.slots; }

  // What decides whether a raw codec copies: see plan::lower.
  Status look_ahead(const Step& step) {
    if (step.chunk >= schedule_.chunks) return broken(step, "no such chunk");
    const bool special = step.slot == kOwnInput || step.slot == kSum;
    if (!special && !is_slot(step.slot)) return broken(step, "no such slot");
    const bool encodes = step.operation == Operation::encode || step.operation == Operation::hop;
    const bool fills = encodes || step.operation == Operation::recv;
    if (special && (fills || step.operation == Operation::send)) return broken(step, "no such slot");
    if (fills) level_of_[step.slot] = step.level;
    if (encodes) {
      encoded_here_[step.slot] = 1;
    } else if (step.operation == Operation::decode && step.slot == kSum) {
      sum_decoded_[step.chunk] = 1;
    } else if (step.operation == Operation::decode && !special) {
      decoded_alone_[step.slot] = 1;
    }
    return {};
  }

  Status write(const Step& step) {
    switch (step.operation) {
      case Operation::encode:
        encode(step, step.from == kOwnInput ? Terms{kOwnInput} : std::exchange(sums_[step.chunk], {}));
        return {};
      case Operation::hop:
        if (!is_slot(step.from)) return broken(step, "no such slot");
        compute(step, {step.from, kOwnInput}, codec(step.level).rates.hop);
        return {};
      case Operation::decode_add:
        sums_[step.chunk].push_back(step.slot);
        return {};
      case Operation::decode:
        decode(step, step.slot == kSum ? std::exchange(sums_[step.chunk], {}) : Terms{step.slot});
        return {};
      case Operation::send:
        send(step);
        return {};
      case Operation::recv:
        receive_of_[step.slot] = static_cast<std::uint32_t>(program_.receives.size());
        program_.receives.push_back({step.peer, received_[step.peer]++, step.chunk});
        return {};
    }
    return broken(step, "no such operation");
  }

  const LevelCodec& codec(std::uint8_t level) const { return codecs_[index_of_level(codecs_, level)]; }
  const LevelCodec& codec_of(std::uint32_t slot) const { return codec(level_of_[slot]); }

  /// What it costs to add the encoded ones.
  double adding(const Terms& terms) const {
    double sum = 0;
    for (const std::uint32_t term : terms) sum += is_slot(term) ? codec_of(term).rates.add : 0;
    return sum;
  }

  void encode(const Step& step, const Terms& terms) {
    const LevelCodec& to = codec(step.level);
    const bool own_input_only = terms.size() == 1 && terms[0] == kOwnInput;
    const bool is_final = decoded_alone_[step.slot] != 0;
    if (to.codec->identity() && own_input_only && !is_final && sum_decoded_[step.chunk] == 0) {
      return compute(step, terms, 0);
    }
    const bool is_hop = terms.size() == 2 && is_slot(terms[0]) != is_slot(terms[1]);
    compute(step, terms, is_hop ? to.rates.hop : to.rates.encode + adding(terms));
  }

  void decode(const Step& step, const Terms& terms) {
    const bool alone = terms.size() == 1;
    const bool own_result = alone && is_slot(terms[0]) && encoded_here_[terms[0]] != 0;
    if (own_result && codec_of(terms[0]).codec->identity()) return compute(step, terms, 0);
    const bool one_slot = alone && is_slot(terms[0]);
    compute(step, terms, one_slot ? codec_of(terms[0]).rates.decode : adding(terms));
  }

  void send(const Step& step) {
    Action& action = add_action(step, {step.slot});
    action.send = static_cast<std::uint32_t>(program_.sends.size());
    action.level = level_of_[step.slot];
    program_.sends.push_back({step.peer, sent_[step.peer]++, step.chunk});
  }

  void compute(const Step& step, const Terms& terms, double ns_per_byte) {
    add_action(step, terms).ns_per_byte = ns_per_byte;
  }

  Action& add_action(const Step& step, const Terms& slots) {
    Action& action = program_.actions.emplace_back();
    action.chunk = step.chunk;
    action.first_need = static_cast<std::uint32_t>(program_.needs.size());
    for (const std::uint32_t slot : slots) {
      if (is_slot(slot) && receive_of_[slot] != kNoMessage) program_.needs.push_back(receive_of_[slot]);
    }
    std::sort(program_.needs.begin() + action.first_need, program_.needs.end());
    action.need_count = static_cast<std::uint32_t>(program_.needs.size()) - action.first_need;
    return action;
  }

  const Schedule& schedule_;
  const Codecs& codecs_;
  Program program_;
  std::vector<std::uint32_t> receive_of_;  // by slot
  std::vector<char> decoded_alone_;        // by slot
  std::vector<char> encoded_here_;         // by slot
  std::vector<std::uint8_t> level_of_;     // by slot
  std::vector<char> sum_decoded_;          // by chunk
  std::vector<Terms> sums_;                // by chunk
  std::unordered_map<std::int32_t, std::uint32_t> sent_;
  std::unordered_map<std::int32_t, std::uint32_t> received_;
};

}  // namespace

Result<Program> timed_program(const Schedule& schedule, const Codecs& codecs) {
  return Writer(schedule, codecs).write();
}

}  // namespace ferrule::sim
