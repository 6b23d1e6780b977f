// The command line of ferrule-bench: nccl-tests' flags, and Ferrule's own.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/ferrule_bench/data.hpp"
#include "bench/ferrule_bench/operation.hpp"
#include "bench/ferrule_bench/sizes.hpp"
#include "ferrule/types.hpp"

namespace ferrule::bench {

/// Which rank's time of an iteration the table shows; the numbers are nccl-tests'.
enum class Average { rank0 = 0, mean = 1, min = 2, max = 3 };

/// --jitter RANK:DURATION
struct Jitter {
  int rank = 0;
  std::chrono::nanoseconds most{0};
  std::string text;
};

struct Options {
  Operation operation = Operation::all_reduce;
  int root = 0;  ///< of broadcast, reduce, gather and scatter
  SizeRange sizes;
  int iters = 20;
  int warmup_iters = 5;
  int check_iters = 1;
  int agg_iters = 1;
  Average average = Average::mean;
  bool blocking = false;
  std::vector<DType> dtypes{DType::f32};
  std::vector<ReduceOp> ops{ReduceOp::sum};
  std::vector<std::string> codecs{"none"};
  std::vector<std::string> algorithms{"auto"};
  std::string transport;  ///< empty: the FERRULE_TRANSPORT setting, or the default
  std::string link;       ///< empty: no throttle, or FERRULE_LINK
  std::string fault;
  int ranks = 0;         ///< local ranks to start; 0: this process is a rank that a launcher has started
  bool threads = false;  ///< -t: the local ranks are threads, whatever the transport's name
  bool error_feedback = false;
  DataKind data = DataKind::normal;
  std::uint64_t seed = 1;
  std::optional<Jitter> jitter;
  std::chrono::nanoseconds timeout{std::chrono::seconds(60)};
  std::string json_path;
  std::string plot_path;
  std::vector<std::string> notes;  ///< accepted, but without the effect it has in nccl-tests
};

/// What to do after reading the command line.
struct ParsedOptions {
  Options options;
  bool finished = false;  ///< print `text` and end with `exit_code` (help, version, or a mistake)
  int exit_code = 0;
  std::string text;
};

ParsedOptions parse_options(int argc, const char* const* argv);

}  // namespace ferrule::bench
