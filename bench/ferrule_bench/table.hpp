// The text table: nccl-tests' (2.13 to 2.16) header, columns and footer character for character, so that
// scripts which read those keep working; Ferrule's own columns follow to the right, its own lines start with
// '#'.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/ferrule_bench/sizes.hpp"
#include "bench/ferrule_bench/statistics.hpp"

namespace ferrule::bench {

/// What the first line of nccl-tests' output tells.
struct RunHeader {
  SizeRange sizes;
  int warmup_iters = 0;
  int iters = 0;
  int agg_iters = 0;
  int check_iters = 0;
  bool blocking = false;
};

/// One line of "Using devices".
struct DeviceLine {
  int rank = 0;
  int pid = 0;
  std::string host;
  std::string name;
};

/// Times and bandwidths of one place (out of place, or in place). wrong: empty prints N/A.
struct PlaceFigures {
  double time_us = 0;
  double algbw_gbps = 0;
  double busbw_gbps = 0;
  std::optional<std::uint64_t> wrong = std::nullopt;
};

/// Ferrule's own columns.
struct ExtraFigures {
  std::uint64_t wire_bytes = 0;
  double compression = 0;
  double encode_percent = 0;
  double wait_percent = 0;
  double decode_percent = 0;
  std::optional<double> rel_error = std::nullopt;  ///< empty prints N/A, as the next two do
  std::optional<double> max_error = std::nullopt;
  std::optional<bool> identical = std::nullopt;
  std::string codec;
  std::string algorithm;
  Summary slowest_us = {};  ///< of the slowest rank's times
  Slowest slowest = {};
};

struct Row {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::string type;
  std::string op;
  PlaceFigures out_of_place;
  PlaceFigures in_place;
  ExtraFigures extra;
};

struct Footer {
  std::uint64_t wrong = 0;
  double mean_busbw_gbps = 0;
};

/// What the run took of memory, the largest over ranks.
struct MemoryFigures {
  std::uint64_t scratch_bytes = 0;   ///< the communicator's
  std::uint64_t peak_rss_bytes = 0;  ///< of a process, which may be several ranks
};

// Each ends with a newline.
std::string run_header(const RunHeader& header);
std::string device_lines(const std::vector<DeviceLine>& devices);
/// `name_width`: characters of the longest "codec algorithm", so that the columns behind it stand in line.
std::string table_header(std::size_t name_width);
std::string table_row(const Row& row, std::size_t name_width);
std::string memory_line(const MemoryFigures& memory);
std::string table_footer(const Footer& footer);

}  // namespace ferrule::bench
