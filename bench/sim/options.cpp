#include "bench/sim/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "bench/ferrule_bench/exit_codes.hpp"
#include "bench/ferrule_bench/names.hpp"
#include "bench/sim/texts.hpp"

namespace ferrule::sim {
namespace {

constexpr const char* kDescription =
    "Runs Ferrule's schedules through a link model and tells how long an all-reduce takes, without any "
    "ranks: up "
    "to 65,536 of them in seconds. Links are alpha-beta; messages queue at the sender's and at the "
    "receiver's "
    "network card; arithmetic costs time; slices overlap as in the library.\n\n"
    "The column 'mode' says what was simulated: full (every rank), rotation or classes (one rank for all "
    "that "
    "behave alike, the same time as full), near_rotation (the same, where ranks differ in the order of some "
    "computations: an approximation). A '+' means that the last slices were extrapolated at the steady "
    "rate.";

constexpr const char* kFooter =
    "Exit code: 0 all right, 2 bad arguments, 3 nothing could be simulated or written, 4 only the plot "
    "failed.\n\n"
    "Examples:\n"
    "  ferrule-sim --ranks 2-65536 -b 64M --codec none --codec int4 --link 10gbit,20us\n"
    "  ferrule-sim --ranks 64 -b 64K -e 1G -f 4 --level 8:2000gbit,2us --link 25gbit,10us --shared-ports\n"
    "  ferrule-sim --ranks 8 -b 16M --link 1gbit,1ms --late 3:20ms --slow 1-2:100mbit,5ms";

/// Arguments that need more than CLI11 to be understood.
struct Texts {
  std::vector<std::string> ranks{"8"};
  std::string min_bytes = "64M";
  std::string max_bytes;
  std::string step_bytes = "1M";
  std::uint64_t factor = 1;
  std::string dtype = "float";
  std::vector<std::string> levels;
  std::string link = "10gbit,20us";
  std::vector<std::string> late;
  std::vector<std::string> slow;
  std::string slice = "64512";
  std::string rates = "measure";
  std::string message_cost;
};

CLI::Option* repeated(CLI::Option* option) {
  return option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_what(CLI::App& app, Options& o, Texts& t) {
  repeated(
      app.add_option("--ranks", t.ranks, "ranks, or a range that is doubled, e.g. 2-65536; several times"))
      ->capture_default_str();
  app.add_option("-b,--minbytes", t.min_bytes, "smallest size, e.g. 8, 64K, 128M, 1G")->capture_default_str();
  app.add_option("-e,--maxbytes", t.max_bytes, "largest size (default: the smallest)");
  app.add_option("-i,--stepbytes", t.step_bytes, "step between sizes, where -f is not given")
      ->capture_default_str();
  app.add_option("-f,--stepfactor", t.factor, "factor between sizes")->check(CLI::Range(1, 1 << 30));
  repeated(app.add_option("--codec", o.codecs,
                          "codec, e.g. none, int4; none/int4 is none inside nodes (hierarchical); several "
                          "times (default: none)"));
  repeated(app.add_option("--algo,--algorithm", o.algorithms, "algorithm; several times (default: all)"));
  app.add_option("-d,--datatype", t.dtype, "float, half or bfloat16, or others with codec none")
      ->capture_default_str();
}

void add_links(CLI::App& app, Options& o, Texts& t) {
  app.add_option("--link", t.link, "link between all ranks that no level joins, as ferrule-bench's")
      ->capture_default_str();
  repeated(app.add_option("--level", t.levels,
                          "RANKS:LINK, the link inside groups of that many ranks, e.g. 8:2000gbit,2us; "
                          "several times, innermost first"));
  app.add_flag("--shared-ports", o.levels.shared_ports,
               "the ranks of a group share one network card to the next level");
  repeated(app.add_option("--late", t.late, "RANK:TIME, a rank that begins late, e.g. 3:5ms; several times"));
  repeated(app.add_option("--slow", t.slow,
                          "RANK:LINK, a rank with another network card, or RANK-RANK:LINK, a slow link "
                          "between two; several times"));
}

void add_model(CLI::App& app, Options& o, Texts& t) {
  app.add_option("--rates", t.rates,
                 "what arithmetic costs: measure (on this machine, now), free, or ENCODE,DECODE,ADD,HOP in "
                 "ns a byte of the tensor")
      ->capture_default_str();
  app.add_option("--slice", t.slice, "encoded bytes of a slice, as FERRULE_SLICE")->capture_default_str();
  app.add_option("--slices-in-flight", o.slices_in_flight,
                 "as FERRULE_SLICES_IN_FLIGHT (default: twice what the outermost link holds, 4 to 512)")
      ->check(CLI::Range(1, 65536));
  app.add_option("--header", o.header_bytes, "bytes before each message")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--message-cost", t.message_cost,
                 "time that sending a message keeps its rank busy, e.g. 2us");
  app.add_option("--max-messages", o.most_messages, "messages that a case may simulate")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e12));
  app.add_flag("--full", o.only_full, "simulate every rank and slice, or say why not");
  app.add_option("-J,--json,--output_file", o.json_path, "write results as JSON");
  app.add_option("--plot", o.plot_path, "draw time against ranks or size (.png or .svg; needs matplotlib)");
}

Status read_sizes(const Texts& t, Options& o) {
  bench::SizeRange range;
  const std::string& last = t.max_bytes.empty() ? t.min_bytes : t.max_bytes;
  const std::pair<const std::string*, std::uint64_t*> all[] = {
      {&t.min_bytes, &range.min_bytes}, {&last, &range.max_bytes}, {&t.step_bytes, &range.step_bytes}};
  for (const auto& [text, to] : all) {
    const auto bytes = bench::parse_bytes(*text);
    if (!bytes.ok()) return bytes.status();
    *to = *bytes;
  }
  range.factor = t.factor;
  auto sizes = bench::sweep(range);
  if (sizes.ok()) o.sizes = *sizes;
  return sizes.status();
}

Status read_links(const Texts& t, Options& o) {
  for (const std::string& text : t.levels) {
    const auto level = parse_level(text);
    if (!level.ok()) return level.status();
    o.levels.levels.push_back(*level);
  }
  const auto outermost = parse_link(t.link);
  if (!outermost.ok()) return outermost.status();
  o.levels.levels.push_back({kEverybody, *outermost, t.link});
  for (const std::string& text : t.late) {
    const auto late = parse_late(text);
    if (!late.ok()) return late.status();
    o.stragglers.late.push_back(*late);
  }
  for (const std::string& text : t.slow) FERRULE_RETURN_IF_ERROR(parse_slow(text, o.stragglers));
  return o.levels.check();
}

Status read_model(const Texts& t, Options& o) {
  if (t.rates != "measure") {
    const auto rates = parse_rates(t.rates);
    if (!rates.ok()) return rates.status();
    o.rates = *rates;
  }
  const auto slice = bench::parse_bytes(t.slice);
  if (!slice.ok()) return slice.status();
  if (*slice == 0) return {ErrorCode::invalid_argument, "--slice 0: a slice needs bytes"};
  o.slice_bytes = *slice;
  if (o.slices_in_flight == 0) {
    o.slices_in_flight = slices_to_fill(o.levels.levels.back().link, o.slice_bytes);
  }
  if (t.message_cost.empty()) return {};
  const auto cost = parse_late("0:" + t.message_cost);
  if (!cost.ok()) {
    return {ErrorCode::invalid_argument,
            fmt::format("--message-cost {}: expected a time in us, ms or s", t.message_cost)};
  }
  o.message_cost_ns = cost->by_ns;
  return {};
}

Status read_rest(const Texts& t, Options& o) {
  for (const std::string& text : t.ranks) {
    const auto worlds = parse_worlds(text);
    if (!worlds.ok()) return worlds.status();
    o.worlds.insert(o.worlds.end(), worlds->begin(), worlds->end());
  }
  const auto dtypes = bench::parse_dtypes(t.dtype);
  if (!dtypes.ok()) return dtypes.status();
  if (dtypes->size() != 1) return {ErrorCode::invalid_argument, "-d all: give one element type"};
  o.dtype = dtypes->front();
  if (o.codecs.empty()) o.codecs.emplace_back("none");
  const auto dot = o.plot_path.rfind('.');
  const std::string ending = dot == std::string::npos ? "" : o.plot_path.substr(dot);
  if (o.plot_path.empty() || ending == ".png" || ending == ".svg") return {};
  return {ErrorCode::invalid_argument,
          fmt::format("--plot {}: the name must end in .png or .svg", o.plot_path)};
}

Status interpret(const Texts& t, Options& o) {
  FERRULE_RETURN_IF_ERROR(read_sizes(t, o));
  FERRULE_RETURN_IF_ERROR(read_links(t, o));
  FERRULE_RETURN_IF_ERROR(read_model(t, o));
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

std::uint32_t slices_to_fill(const LinkRate& link, std::size_t slice_bytes) {
  if (link.ns_per_byte == 0) return 4;
  const double wanted = std::ceil(2 * link.latency_ns / link.ns_per_byte / static_cast<double>(slice_bytes));
  return static_cast<std::uint32_t>(std::clamp(wanted, 4.0, 512.0));
}

ParsedOptions parse_options(int argc, const char* const* argv) {
  ParsedOptions parsed;
  Texts texts;
  CLI::App app(kDescription, "ferrule-sim");
  app.footer(kFooter);
  app.get_formatter()->column_width(34);
  add_what(app, parsed.options, texts);
  add_links(app, parsed.options, texts);
  add_model(app, parsed.options, texts);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return finished(bench::kExitOk, app.help());
  } catch (const CLI::ParseError& error) {
    return finished(bench::kExitUsage,
                    fmt::format("ferrule-sim: {}\nTry ferrule-sim --help.\n", error.what()));
  }
  if (const Status status = interpret(texts, parsed.options); !status.ok()) {
    return finished(bench::kExitUsage, fmt::format("ferrule-sim: {}\n", status.text()));
  }
  return parsed;
}

}  // namespace ferrule::sim
