// The command line of ferrule-sim.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/ferrule_bench/sizes.hpp"
#include "bench/sim/codecs.hpp"
#include "bench/sim/levels.hpp"
#include "ferrule/types.hpp"

namespace ferrule::sim {

struct Options {
  std::vector<std::int32_t> worlds;
  std::vector<std::uint64_t> sizes;  ///< bytes of the tensor
  std::vector<std::string> codecs;
  std::vector<std::string> algorithms;  ///< empty: all
  DType dtype = DType::f32;
  Levels levels;
  Stragglers stragglers;
  std::size_t slice_bytes = 64512;
  std::uint32_t slices_in_flight = 0;  ///< 0: enough for the outermost link
  std::optional<CodecRates> rates;     ///< none: measured
  double header_bytes = 64;
  double message_cost_ns = 0;
  double most_messages = 5e6;
  bool only_full = false;
  std::string json_path;
  std::string plot_path;
};

struct ParsedOptions {
  Options options;
  bool finished = false;  ///< --help, or a mistake: print `text` and end with `exit_code`
  int exit_code = 0;
  std::string text;
};

ParsedOptions parse_options(int argc, const char* const* argv);

/// As a throttled transport chooses them: twice the bandwidth-delay product, from 4 to 512.
std::uint32_t slices_to_fill(const LinkRate& link, std::size_t slice_bytes);

}  // namespace ferrule::sim
