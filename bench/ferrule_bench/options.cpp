#include "bench/ferrule_bench/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "bench/ferrule_bench/exit_codes.hpp"
#include "bench/ferrule_bench/jitter.hpp"
#include "bench/ferrule_bench/names.hpp"
#include "ferrule/codec_spec.hpp"

namespace ferrule::bench {
namespace {

constexpr int kMaxCount = 1'000'000'000;
constexpr int kMaxLocalRanks = 1024;

constexpr const char* kDescription =
    "Times Ferrule's all-reduce, or another collective (--operation), and checks its results. The table is "
    "that "
    "of nccl-tests, with "
    "columns for compression to the right.\n\n"
    "Bandwidth is EFFECTIVE: algbw is the UNCOMPRESSED size of the message over the time (10^9 bytes a "
    "second), and "
    "busbw is algbw * 2(n-1)/n for an all-reduce (each operation has nccl-tests' factor), which for raw data "
    "is what crosses each rank's link. With a codec fewer "
    "bytes cross "
    "than that, so busbw may well exceed what the link can carry: it says what link a raw all-reduce would "
    "have "
    "needed to be as fast. What really crossed is in the column 'wire': the bytes that one rank sent for one "
    "all-reduce, headers included, counted at the transport; 'ratio' is how many times fewer that is than "
    "the same "
    "algorithm sends of raw data.";

constexpr const char* kFooter =
    "Ranks: with --ranks N the program starts N ranks on this machine itself. Without it, rank and size come "
    "from "
    "the launcher (torchrun, mpirun, srun, or RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT).\n"
    "#wrong counts elements further from the fp64 result than the codec's documented bound (exact codecs: "
    "than "
    "rounding in another order of addition allows).\n"
    "Exit code: 0 all right, 1 wrong or differing results, 2 bad arguments, 3 a rank failed, 4 only the plot "
    "failed.\n\nExample: ferrule-bench --ranks 4 -b 64K -e 16M -f 4 --codec none --codec int4 --link "
    "1gbit,1ms";

/// Arguments that need more than CLI11 to be understood.
struct Texts {
  std::string min_bytes = "32M";
  std::string max_bytes;
  std::string step_bytes = "1M";
  std::string dtype = "float";
  std::string op = "sum";
  std::string operation = "all_reduce";
  std::string root = "0";
  std::string data = "normal";
  std::string jitter;
  double timeout_s = 60;
  int average = 1;
  int threads = 1;
  int gpus = 1;
  int blocking = 0;
};

void add_classic_flags(CLI::App& app, Options& o, Texts& t) {
  app.add_option("-b,--minbytes", t.min_bytes, "smallest size, e.g. 8, 64K, 128M, 1G")->capture_default_str();
  app.add_option("-e,--maxbytes", t.max_bytes, "largest size (default: 32M, or the smallest size if larger)");
  app.add_option("-i,--stepbytes", t.step_bytes, "step between sizes, where -f is not given")
      ->capture_default_str();
  app.add_option("-f,--stepfactor", o.sizes.factor, "factor between sizes")->check(CLI::Range(1, 1 << 30));
  app.add_option("-n,--iters", o.iters, "timed iterations")
      ->capture_default_str()
      ->check(CLI::Range(1, kMaxCount));
  app.add_option("-w,--warmup_iters", o.warmup_iters, "untimed iterations before")
      ->capture_default_str()
      ->check(CLI::Range(0, kMaxCount));
  app.add_option("-m,--agg_iters", o.agg_iters, "all-reduces issued together in each iteration")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  app.add_option("-c,--check", o.check_iters, "iterations whose results are checked; 0 checks nothing")
      ->capture_default_str()
      ->check(CLI::Range(0, kMaxCount));
  app.add_option("-o,--op", t.op, "sum, avg, min, max, prod or all")->capture_default_str();
  app.add_option("-d,--datatype", t.dtype, "float, double, half, bfloat16, int32, int64, uint8 or all")
      ->capture_default_str();
  app.add_option(
         "-a,--average", t.average,
         "time shown of each iteration: 0 rank 0's, 1 mean, 2 min, 3 max over ranks (JSON: always max)")
      ->capture_default_str()
      ->check(CLI::Range(0, 3));
  app.add_option("-z,--blocking", t.blocking,
                 "1: wait for each all-reduce before the next is issued (see -m)")
      ->capture_default_str()
      ->check(CLI::Range(0, 2));
  app.add_option("-r,--root", t.root, "of broadcast, reduce, gather and scatter; all: 0")
      ->capture_default_str();
  app.add_option("-t,--nthreads", t.threads, "N > 1: as --ranks N --transport loopback (ranks as threads)")
      ->check(CLI::Range(1, kMaxLocalRanks));
  app.add_option("-g,--ngpus", t.gpus, "accepted and ignored: ranks use host memory; see --ranks")
      ->check(CLI::Range(1, kMaxLocalRanks));
}

void add_own_flags(CLI::App& app, Options& o, Texts& t) {
  app.add_option(
         "--operation", t.operation,
         "all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, scatter, alltoall or sendrecv")
      ->capture_default_str();
  app.add_option("--codec", o.codecs,
                 "codec, e.g. none, bf16, int8, int4:block=128, auto:int4, none/int4 (inside a node/between "
                 "nodes); may "
                 "be given several times")
      ->capture_default_str()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--algo,--algorithm", o.algorithms,
                 "algorithm, e.g. auto, direct, ring; may be given several times")
      ->capture_default_str()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--transport", o.transport,
                 "auto, loopback (ranks are threads) or ucx (ranks are processes)");
  app.add_option("--ranks", o.ranks, "start this many ranks on this machine")
      ->check(CLI::Range(1, kMaxLocalRanks));
  app.add_option("--link", o.link, "throttle each rank to a link, e.g. 1gbit,1ms");
  app.add_option("--fault", o.fault, "plant a fault in the transport, for tests; see docs/errors.md");
  app.add_flag("--error-feedback,!--no-error-feedback", o.error_feedback,
               "lossy codecs keep what they lose in a residual (default: no)");
  app.add_option("--data", t.data, "normal, or integer: whole numbers, whose exact sums must be exact")
      ->capture_default_str()
      ->check(CLI::IsMember({"normal", "integer"}));
  app.add_option("--seed", o.seed, "of the data and of stochastic rounding")->capture_default_str();
  app.add_option(
      "--jitter", t.jitter,
      "RANK:DURATION, e.g. 2:500us: before each timed iteration that rank is late by a random time up "
      "to DURATION, the same in each run with this --seed");
  app.add_option("-T,--timeout", t.timeout_s, "seconds that any one wait may take")->capture_default_str();
  app.add_option("-J,--json,--output_file", o.json_path,
                 "write results with machine, versions and raw samples");
  app.add_option("--plot", o.plot_path,
                 "draw time and bandwidth against size (.png or .svg; needs matplotlib)");
}

Status read_sizes(const Texts& t, Options& o) {
  auto min_bytes = parse_bytes(t.min_bytes);
  if (!min_bytes.ok()) return min_bytes.status();
  auto step_bytes = parse_bytes(t.step_bytes);
  if (!step_bytes.ok()) return step_bytes.status();
  o.sizes.min_bytes = *min_bytes;
  o.sizes.step_bytes = *step_bytes;
  o.sizes.max_bytes = std::max(SizeRange{}.max_bytes, *min_bytes);
  if (!t.max_bytes.empty()) {
    auto max_bytes = parse_bytes(t.max_bytes);
    if (!max_bytes.ok()) return max_bytes.status();
    o.sizes.max_bytes = *max_bytes;
  }
  return sweep(o.sizes).status();
}

Status read_types(const Texts& t, Options& o) {
  auto dtypes = parse_dtypes(t.dtype);
  if (!dtypes.ok()) return dtypes.status();
  auto ops = parse_ops(t.op);
  if (!ops.ok()) return ops.status();
  auto operation = parse_operation(t.operation);
  if (!operation.ok()) return operation.status();
  o.operation = *operation;
  o.dtypes = *dtypes;
  o.ops = reduces(o.operation) ? *ops : std::vector{ReduceOp::sum};
  for (const std::string& codec : o.codecs) {
    for (const std::string_view level : codec_levels(without_auto(codec))) {
      FERRULE_RETURN_IF_ERROR(CodecSpec::parse(level).status());
    }
  }
  return {};
}

Status read_root(const Texts& t, Options& o) {
  const char* const end = t.root.data() + t.root.size();
  if (t.root == "all") return {};  // every root in turn in nccl-tests; the first stands for them
  if (std::from_chars(t.root.data(), end, o.root).ptr == end && !t.root.empty() && o.root >= 0) return {};
  return Status(ErrorCode::invalid_argument, fmt::format("--root {}: expected a rank, or all", t.root));
}

Status read_ranks(const Texts& t, Options& o) {
  const auto bad = [](std::string text) { return Status(ErrorCode::invalid_argument, std::move(text)); };
  if (t.threads > 1) {
    if (o.ranks > 1 && o.ranks != t.threads)
      return bad(fmt::format("-t {} and --ranks {} disagree; give one of them", t.threads, o.ranks));
    if (!o.transport.empty() && o.transport != "loopback")
      return bad(
          fmt::format("-t {} makes ranks of threads, which only loopback can join, not '{}'; use --ranks",
                      t.threads, o.transport));
    o.ranks = t.threads;
    o.transport = "loopback";
  }
  if (t.gpus > 1)
    o.notes.push_back(fmt::format("-g {} is ignored: use --ranks {} or a launcher", t.gpus, t.gpus));
  if (o.transport == "auto") o.transport.clear();
  if (o.jitter && o.ranks > 0 && o.jitter->rank >= o.ranks)
    return bad(fmt::format("--jitter {}: there are {} ranks, from 0", o.jitter->text, o.ranks));
  return {};
}

Status read_rest(const Texts& t, Options& o) {
  const auto bad = [](std::string text) { return Status(ErrorCode::invalid_argument, std::move(text)); };
  if (!(t.timeout_s > 0 && t.timeout_s <= 1e6))
    return bad(fmt::format("--timeout {}: expected seconds, more than 0 and at most 1e6", t.timeout_s));
  o.timeout = std::chrono::nanoseconds(static_cast<std::int64_t>(t.timeout_s * 1e9));
  o.average = static_cast<Average>(t.average);
  o.blocking = t.blocking != 0;
  o.data = t.data == "integer" ? DataKind::integer : DataKind::normal;
  const auto dot = o.plot_path.rfind('.');
  const std::string ending = dot == std::string::npos ? "" : o.plot_path.substr(dot);
  if (!o.plot_path.empty() && ending != ".png" && ending != ".svg")
    return bad(fmt::format("--plot {}: the name must end in .png or .svg", o.plot_path));
  return {};
}

Status interpret(const Texts& t, Options& o) {
  FERRULE_RETURN_IF_ERROR(read_sizes(t, o));
  FERRULE_RETURN_IF_ERROR(read_types(t, o));
  FERRULE_RETURN_IF_ERROR(read_root(t, o));
  if (!t.jitter.empty()) {
    auto jitter = parse_jitter(t.jitter);
    if (!jitter.ok()) return jitter.status();
    o.jitter = std::move(*jitter);
  }
  FERRULE_RETURN_IF_ERROR(read_ranks(t, o));
  return read_rest(t, o);
}

ParsedOptions finished(int exit_code, std::string text) {
  ParsedOptions parsed;
  parsed.finished = true;
  parsed.exit_code = exit_code;
  parsed.text = std::move(text);
  return parsed;
}

}  // namespace

ParsedOptions parse_options(int argc, const char* const* argv) {
  ParsedOptions parsed;
  Texts texts;
  CLI::App app(kDescription, "ferrule-bench");
  app.footer(kFooter);
  app.get_formatter()->column_width(34);
  add_classic_flags(app, parsed.options, texts);
  add_own_flags(app, parsed.options, texts);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return finished(kExitOk, app.help());
  } catch (const CLI::ParseError& error) {
    return finished(kExitUsage, fmt::format("ferrule-bench: {}\nTry ferrule-bench --help.\n", error.what()));
  }
  if (const Status status = interpret(texts, parsed.options); !status.ok())
    return finished(kExitUsage, fmt::format("ferrule-bench: {}\n", status.text()));
  return parsed;
}

}  // namespace ferrule::bench
