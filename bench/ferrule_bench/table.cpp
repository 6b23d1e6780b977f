#include "bench/ferrule_bench/table.hpp"

#include <fmt/format.h>

namespace ferrule::bench {
namespace {

/// Seven characters, with fewer decimals the longer it takes.
std::string time_text(double time_us) {
  if (time_us >= 10000.0) return fmt::format("{:7.0f}", time_us);
  if (time_us >= 100.0) return fmt::format("{:7.1f}", time_us);
  return fmt::format("{:7.2f}", time_us);
}

std::string place_columns(const PlaceFigures& place) {
  const std::string wrong =
      place.wrong ? fmt::format("{:5g}", static_cast<double>(*place.wrong)) : std::string("  N/A");
  return fmt::format("  {}  {:6.2f}  {:6.2f}  {}", time_text(place.time_us), place.algbw_gbps,
                     place.busbw_gbps, wrong);
}

std::string error_text(const std::optional<double>& error) {
  return error ? fmt::format("{:.2e}", *error) : std::string("N/A");
}

constexpr const char* kExtraColumns =
    "  {:>12}  {:>7}  {:>5}  {:>5}  {:>5}  {:>8}  {:>8}  {:>5}  {:<{}}  {:>7}  {:>7}  {:>7}  {:>7}  {:>9}";

std::string extra_columns(const ExtraFigures& extra, std::size_t name_width) {
  const char* identical = !extra.identical ? "N/A" : *extra.identical ? "yes" : "NO";
  return fmt::format(
      fmt::runtime(kExtraColumns), extra.wire_bytes, fmt::format("{:.3f}", extra.compression),
      fmt::format("{:.1f}", extra.encode_percent), fmt::format("{:.1f}", extra.wait_percent),
      fmt::format("{:.1f}", extra.decode_percent), error_text(extra.rel_error), error_text(extra.max_error),
      identical, fmt::format("{} {}", extra.codec, extra.algorithm), name_width,
      time_text(extra.slowest_us.p50), time_text(extra.slowest_us.p95), time_text(extra.slowest_us.p99),
      time_text(extra.slowest_us.max), fmt::format("{} {:.0f}%", extra.slowest.rank, extra.slowest.percent));
}

/// One line of column titles: five titles, the titles of a place twice, Ferrule's own.
struct TitleLine {
  std::string_view size, count, type, op, root, time, algbw, busbw, wrong;
  std::string extra;
};

std::string title_line(const TitleLine& t) {
  const std::string place = fmt::format("  {:>7}  {:>6}  {:>6} {:>6}", t.time, t.algbw, t.busbw, t.wrong);
  return fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}{}\n", t.size, t.count, t.type, t.op, t.root,
                     place, place, t.extra);
}

}  // namespace

std::string run_header(const RunHeader& header) {
  const bool factor = header.sizes.factor > 1;
  std::string text = fmt::format(
      "# nThread 1 nGpus 1 minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: {} "
      "validation: {} graph: 0\n",
      header.sizes.min_bytes, header.sizes.max_bytes, factor ? header.sizes.factor : header.sizes.step_bytes,
      factor ? "factor" : "bytes", header.warmup_iters, header.iters, header.agg_iters, header.check_iters);
  if (header.blocking) text += "# Blocking Enabled: wait for completion and barrier after each collective \n";
  return text + "#\n";
}

std::string device_lines(const std::vector<DeviceLine>& devices) {
  std::string text = "# Using devices\n";
  for (const DeviceLine& device : devices) {
    text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on {:>10} device  0 [0x00] {}\n", device.rank,
                        device.pid, device.host, device.name);
  }
  return text;
}

std::string table_header(std::size_t name_width) {
  const auto extra = [](auto... titles) { return fmt::format(fmt::runtime(kExtraColumns), titles...); };
  return fmt::format("#\n# {:>50}           out-of-place                       in-place          \n", "") +
         title_line({"size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
                     extra("wire", "ratio", "enc", "wait", "dec", "relerr", "maxerr", "ident",
                           "codec algorithm", name_width, "p50", "p95", "p99", "max", "slowest")}) +
         title_line({"(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "",
                     extra("(B/rank)", "(x)", "(%)", "(%)", "(%)", "(L2)", "(abs)", "", "", name_width,
                           "(us)", "(us)", "(us)", "(us)", "(rank)")});
}

std::string table_row(const Row& row, std::size_t name_width) {
  return fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:6}", row.bytes, row.count, row.type, row.op, -1) +
         place_columns(row.out_of_place) + place_columns(row.in_place) +
         extra_columns(row.extra, name_width) + "\n";
}

std::string memory_line(const MemoryFigures& memory) {
  constexpr double kMiB = 1 << 20;
  return fmt::format("# Memory: scratch {:.1f} MiB a rank, peak resident {:.1f} MiB a process\n",
                     static_cast<double>(memory.scratch_bytes) / kMiB,
                     static_cast<double>(memory.peak_rss_bytes) / kMiB);
}

std::string table_footer(const Footer& footer) {
  return fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g} \n#\n", footer.wrong,
                     footer.wrong == 0 ? "OK" : "FAILED", footer.mean_busbw_gbps);
}

}  // namespace ferrule::bench
