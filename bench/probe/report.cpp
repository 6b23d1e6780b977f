#include "bench/probe/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ferrule/ferrule.h"

namespace ferrule::probe {
namespace {

using communicator::Preview;

constexpr double kMicro = 1e6;
constexpr double kGiga = 1e-9;

std::string size_text(std::uint64_t bytes) {
  const bool mega = bytes >= (1 << 20);
  return fmt::format("{} {}", bytes >> (mega ? 20 : 10), mega ? "MiB" : "KiB");
}

/// Four significant digits, never with an exponent where a person would not write one.
std::string number_text(double value) {
  if (!std::isfinite(value)) return "any";
  return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string rank_lines(const Findings& findings) {
  std::string text;
  for (std::size_t rank = 0; rank < findings.ranks.size(); ++rank) {
    const transport::Peer& peer = findings.ranks[rank];
    text += fmt::format("  rank {}: host {}, pid {}\n", rank, peer.host, peer.pid);
  }
  return text;
}

std::string matrix_lines(const Findings& findings, const Matrix& matrix, double unit) {
  std::string text = "          ";
  const std::size_t world = findings.ranks.size();
  for (std::size_t column = 0; column < world; ++column) text += fmt::format("{:>9}", column);
  for (std::size_t row = 0; row < world; ++row) {
    text += fmt::format("\n{:>10}", row);
    for (std::size_t column = 0; column < world; ++column) {
      const bool self = row == column;
      text += fmt::format("{:>9}", self ? "-" : number_text(findings.at(matrix, row, column) * unit));
    }
  }
  return text + "\n";
}

std::string codec_lines(const Findings& findings) {
  std::string text = fmt::format("  {:<40} {:>8} {:>8} {:>7}  {}\n", "codec", "encode", "decode", "ratio",
                                 "pays where a rank's link is below");
  for (const CodecFindings& codec : findings.codecs) {
    constexpr double kElement = sizeof(float) * kGiga;
    text +=
        fmt::format("  {:<40} {:>8} {:>8} {:>7}  {} Gbit/s\n", codec.spec,
                    number_text(kElement / codec.cost.encode_s), number_text(kElement / codec.cost.decode_s),
                    number_text(codec.ratio), number_text(codec.break_even_bits_per_s * kGiga));
  }
  return text;
}

std::string choice_text(const Preview& choice) {
  return fmt::format("{:<18} {:>9} {:>10}", choice.algorithm,
                     fmt::format("{}/{}", choice.slices_in_flight, choice.slice_count),
                     number_text(choice.seconds * kMicro));
}

std::string automatic_text(const Preview& choice) {
  if (choice.codec == "none") return "raw";
  return fmt::format("yes {} {} us", choice.algorithm, number_text(choice.seconds * kMicro));
}

/// Of the name alone: parameters are in the list of codecs.
std::string column_title(const std::string& spec) { return "auto:" + spec.substr(0, spec.find(':')); }

/// The line without blanks at its end.
std::string ended(const std::string& line) { return line.substr(0, line.find_last_not_of(' ') + 1) + "\n"; }

std::string choice_lines(const Findings& findings) {
  std::string titles = fmt::format("  {:>8}  {:<18} {:>9} {:>10}", "size", "raw: algorithm", "slices", "us");
  for (const CodecFindings& codec : findings.codecs)
    titles += fmt::format("  {:<22}", column_title(codec.spec));
  std::string text = ended(titles);
  for (const SizeFindings& size : findings.sizes) {
    std::string line = fmt::format("  {:>8}  {}", size_text(size.bytes), choice_text(size.raw));
    for (const Preview& automatic : size.automatic)
      line += fmt::format("  {:<22}", automatic_text(automatic));
    text += ended(line);
  }
  return text;
}

}  // namespace

std::string text_report(const Findings& findings) {
  return fmt::format("ferrule-probe {}: {} ranks over {}\n", ferruleVersion(), findings.ranks.size(),
                     findings.transport) +
         rank_lines(findings) + "\nLatency, us (half of the shortest round trip; row: who measured)\n" +
         matrix_lines(findings, findings.latency_s, kMicro) +
         "\nBandwidth, GB/s (from row to column, one way at a time)\n" +
         matrix_lines(findings, findings.bytes_per_s, kGiga) +
         "\nCodecs, GB/s of fp32 (all ranks at once; encode keeps a residual)\n" + codec_lines(findings) +
         "\nLink model (all ranks at once): " + communicator::describe(findings.tuning.link) +
         "\n\nWhat would be chosen for sums of f32 (slices: in flight/all; us: as the model expects)\n" +
         choice_lines(findings);
}

std::string tuning_file(const Findings& findings) {
  return fmt::format("# ferrule-probe {}: {} ranks over {}, rank 0 on {}\n", ferruleVersion(),
                     findings.ranks.size(), findings.transport, findings.ranks.front().host) +
         findings.tuning.to_string();
}

}  // namespace ferrule::probe
