#include "bench/ferrule_bench/json_report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace ferrule::bench {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no Inf or NaN; an error that large is null, and `wrong` says the rest.
Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json times_json(const Timing& timing) {
  const Summary summary = summarise(timing.samples_us);
  return {{"p50", summary.p50}, {"p95", summary.p95},   {"p99", summary.p99},
          {"max", summary.max}, {"mean", summary.mean}, {"min", summary.min}};
}

/// The fields that each place has.
void put_timing(Json& to, const CaseResult& result, const Timing& timing) {
  to["time_us"] = times_json(timing);
  to["algbw_gbps"] = algbw_gbps(result.what.bytes(), timing.shown_us);
  to["busbw_gbps"] = result.busbw_gbps(timing);
  to["shown_time_us"] = timing.shown_us;
  to["share_percent"] = {
      {"encode", timing.encode_percent}, {"wait", timing.wait_percent}, {"decode", timing.decode_percent}};
  to["slowest_rank"] = {{"rank", timing.slowest.rank}, {"percent", timing.slowest.percent}};
}

void put_verdict(Json& to, const std::optional<Verdict>& verdict) {
  to["rel_error"] = verdict ? finite_or_null(verdict->rel_error) : Json(nullptr);
  to["max_error"] = verdict ? finite_or_null(verdict->max_error) : Json(nullptr);
  to["wrong"] = verdict ? Json(verdict->wrong) : Json(nullptr);
  to["identical"] = verdict ? Json(verdict->identical) : Json(nullptr);
  if (verdict && verdict->rel_error_of_mean)
    to["rel_error_of_mean"] = finite_or_null(*verdict->rel_error_of_mean);
}

Json in_place_json(const CaseResult& result) {
  Json json;
  put_timing(json, result, result.in_place);
  json["wire_bytes"] = result.in_place.wire_bytes;
  put_verdict(json, result.in_place_verdict);
  json["samples_us"] = result.in_place.samples_us;
  return json;
}

Json result_json(const CaseResult& result) {
  Json json;
  json["operation"] = name(result.what.operation);
  json["codec"] = result.what.codec;
  json["algo"] = result.what.algorithm;
  json["algorithm_ran"] = result.algorithm_ran;
  json["codec_ran"] = result.codec_ran;
  json["ranks"] = result.ranks;
  json["transport"] = result.transport;
  json["dtype"] = dtype_name(result.what.dtype);
  json["op"] = op_name(result.what.op);
  json["bytes"] = result.what.bytes();
  json["count"] = result.what.count;
  json["error_feedback"] = result.what.error_feedback;
  put_timing(json, result, result.out_of_place);
  json["wire_bytes"] = result.out_of_place.wire_bytes;
  json["raw_wire_bytes"] = result.raw_wire_bytes;
  json["compression"] = result.compression();
  put_verdict(json, result.verdict());
  json["samples_us"] = result.out_of_place.samples_us;
  json["in_place"] = in_place_json(result);
  return json;
}

Json machine_json(const Machine& machine) {
  return {{"host", machine.host},     {"cpu", machine.cpu},
          {"cores", machine.cores},   {"memory_bytes", machine.memory_bytes},
          {"system", machine.system}, {"compiler", machine.compiler}};
}

Json units_json() {
  return {
      {"bytes", "uncompressed bytes of the tensor on one rank"},
      {"time_us", "microseconds of one all-reduce: the slowest rank's in each iteration, out of place"},
      {"algbw_gbps", "bytes / mean time as chosen by -a, in 10^9 bytes a second"},
      {"busbw_gbps",
       "algbw_gbps * the operation's factor (2(n-1)/n for all_reduce): effective, on uncompressed bytes"},
      {"wire_bytes", "sent by one rank for one all-reduce, headers included (largest over ranks)"},
      {"raw_wire_bytes", "the same, of raw data by the same algorithm"},
      {"compression", "raw_wire_bytes / wire_bytes"},
      {"rel_error",
       "L2 norm of the error against fp64 / L2 norm of the fp64 result; null: not finite, or not checked"},
      {"max_error", "largest absolute error against fp64"},
      {"share_percent", "of the time, mean over ranks"},
      {"slowest_rank", "the rank that waited least for others in most iterations, and in how many of them"},
      {"memory", "bytes, the largest over ranks: scratch of the communicator; peak resident of a process"}};
}

Json settings_json(const Options& options) {
  return {{"iters", options.iters},
          {"warmup_iters", options.warmup_iters},
          {"agg_iters", options.agg_iters},
          {"check_iters", options.check_iters},
          {"average", static_cast<int>(options.average)},
          {"blocking", options.blocking},
          {"link", options.link},
          {"fault", options.fault},
          {"jitter", options.jitter ? options.jitter->text : ""},
          {"seed", options.seed},
          {"data", options.data == DataKind::integer ? "integer" : "normal"},
          {"timeout_s", std::chrono::duration<double>(options.timeout).count()}};
}

}  // namespace

nlohmann::ordered_json json_report(const RunDescription& run, const Options& options,
                                   const std::vector<CaseResult>& results) {
  Json json;
  json["schema"] = kJsonSchema;
  json["machine"] = machine_json(run.machine);
  json["versions"] = {{"ferrule", run.ferrule_version}, {"git", run.git}, {"info", run.ferrule_info}};
  json["started"] = run.started;
  json["command_line"] = run.command_line;
  json["settings"] = settings_json(options);
  json["units"] = units_json();
  json["memory"] = {{"scratch_bytes", run.memory.scratch_bytes},
                    {"peak_rss_bytes", run.memory.peak_rss_bytes}};
  json["results"] = Json::array();
  for (const CaseResult& result : results) json["results"].push_back(result_json(result));
  return json;
}

Status write_json(const nlohmann::ordered_json& report, const std::string& path) {
  const std::string part = fmt::format("{}.part.{}", path, getpid());
  std::ofstream file(part, std::ios::trunc);
  file << report.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
  file.close();
  if (file.fail() || std::rename(part.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    std::remove(part.c_str());
    return Status(ErrorCode::system, fmt::format("cannot write '{}': {}", path, std::strerror(reason)));
  }
  return {};
}

}  // namespace ferrule::bench
