#include "bench/sim/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ferrule::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRow =
    "{:>8}  {:>12}  {:>20}  {:>18}  {:>12}  {:>9}  {:>9}  {:>12}  {:>8}  {:>14}  {}\n";

std::string level_bytes_text(const Outcome& outcome) {
  std::vector<std::string> texts;
  for (const double bytes : outcome.level_bytes) texts.push_back(fmt::format("{:.4g}", bytes));
  return fmt::format("{}", fmt::join(texts, " "));
}

Json result_json(const CaseResult& result) {
  const Outcome& outcome = result.answer.outcome;
  Json json;
  json["ranks"] = result.world;
  json["bytes"] = result.bytes;
  json["codec"] = result.codec();
  json["algo"] = result.algorithm;
  json["time_us"] = outcome.time_ns / 1e3;
  json["first_done_us"] = outcome.first_done_ns / 1e3;
  json["algbw_gbps"] = result.algbw_gbps();
  json["busbw_gbps"] = result.busbw_gbps();
  json["most_sent_bytes"] = outcome.most_sent_bytes;
  json["most_busy_us"] = outcome.most_busy_ns / 1e3;
  json["level_bytes"] = outcome.level_bytes;
  json["mode"] = mode_name(result.answer.mode);
  json["simulated_ranks"] = result.answer.walkers;
  json["slices"] = result.answer.slices;
  json["simulated_slices"] = result.answer.simulated_slices;
  json["padding"] = result.answer.padding;
  return json;
}

Json skipped_json(const CaseResult& result) {
  return {{"ranks", result.world},
          {"bytes", result.bytes},
          {"codec", result.codec()},
          {"algo", result.algorithm},
          {"why", result.status.text()}};
}

Json settings_json(const Options& options) {
  Json levels = Json::array();
  for (const Level& level : options.levels.levels) {
    levels.push_back({{"group", level.group == kEverybody ? Json(nullptr) : Json(level.group)},
                      {"link", level.text},
                      {"latency_ns", level.link.latency_ns},
                      {"ns_per_byte", level.link.ns_per_byte}});
  }
  return {{"levels", levels},
          {"shared_ports", options.levels.shared_ports},
          {"stragglers", !options.stragglers.none()},
          {"dtype", dtype_name(options.dtype)},
          {"slice_bytes", options.slice_bytes},
          {"slices_in_flight", options.slices_in_flight},
          {"header_bytes", options.header_bytes},
          {"message_cost_ns", options.message_cost_ns}};
}

Json units_json() {
  return {{"bytes", "uncompressed bytes of the tensor on one rank"},
          {"time_us", "simulated microseconds until the last rank is done"},
          {"algbw_gbps", "bytes / time_us, in 10^9 bytes a second"},
          {"busbw_gbps", "algbw_gbps * 2(n-1)/n: effective, on uncompressed bytes"},
          {"most_sent_bytes", "sent by the rank that sends most, headers included"},
          {"most_busy_us", "arithmetic of the rank that has most of it"},
          {"level_bytes", "sent over each level's links by all ranks, innermost first, headers included"},
          {"mode", "which ranks were simulated: full, rotation, classes, near_rotation"},
          {"simulated_slices", "where fewer than slices: the rest at the steady rate"},
          {"padding", "share by which the tensor was enlarged to make all chunks equal"}};
}

/// What each codec's arithmetic was taken to cost.
Json rates_json(const std::vector<CaseResult>& results) {
  Json json;
  for (const CaseResult& result : results) {
    for (const LevelCodec& one : result.codecs) {
      json[one.codec->spec()] = {{"encode", one.rates.encode},
                                 {"decode", one.rates.decode},
                                 {"add", one.rates.add},
                                 {"hop", one.rates.hop}};
    }
  }
  return json;
}

}  // namespace

std::string mode_text(const Answer& answer) {
  return fmt::format("{}{}", mode_name(answer.mode), answer.simulated_slices < answer.slices ? "+" : "");
}

std::string table_header(const Options& options) {
  std::vector<std::string> links;
  for (const Level& level : options.levels.levels) {
    links.push_back(level.group == kEverybody ? level.text
                                              : fmt::format("{} ranks by {}", level.group, level.text));
  }
  return fmt::format("# simulated; links: {}; slices of {} bytes, {} in flight; rates: {}\n#",
                     fmt::join(links, ", then "), options.slice_bytes, options.slices_in_flight,
                     options.rates ? "given" : "measured on this machine") +
         fmt::format(kRow, "ranks", "size(B)", "codec", "algorithm", "time(us)", "algbw", "busbw",
                     "sent(B/rank)", "busy(%)", "mode", "bytes by level");
}

std::string table_row(const CaseResult& result) {
  if (!result.status.ok()) {
    return fmt::format("# {} ranks, {} bytes, {}, {}: {}\n", result.world, result.bytes, result.codec(),
                       result.algorithm, result.status.text());
  }
  const Outcome& outcome = result.answer.outcome;
  const double busy = outcome.time_ns > 0 ? 100 * outcome.most_busy_ns / outcome.time_ns : 0;
  return " " + fmt::format(
                   kRow, result.world, result.bytes, result.codec(), result.algorithm,
                   fmt::format("{:.1f}", outcome.time_ns / 1e3), fmt::format("{:.3f}", result.algbw_gbps()),
                   fmt::format("{:.3f}", result.busbw_gbps()), fmt::format("{:.0f}", outcome.most_sent_bytes),
                   fmt::format("{:.1f}", busy), mode_text(result.answer), level_bytes_text(outcome));
}

nlohmann::ordered_json json_report(const Options& options, const std::string& command_line,
                                   const std::vector<CaseResult>& results) {
  Json json;
  json["simulator"] = kJsonSchema;
  json["command_line"] = command_line;
  json["settings"] = settings_json(options);
  json["rates_ns_per_byte"] = rates_json(results);
  json["units"] = units_json();
  json["results"] = Json::array();
  json["skipped"] = Json::array();
  for (const CaseResult& result : results) {
    if (result.status.ok()) {
      json["results"].push_back(result_json(result));
    } else {
      json["skipped"].push_back(skipped_json(result));
    }
  }
  return json;
}

}  // namespace ferrule::sim
