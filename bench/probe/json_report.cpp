#include "bench/probe/json_report.hpp"

#include <cmath>

#include "bench/ferrule_bench/machine.hpp"
#include "ferrule/ferrule.h"

namespace ferrule::probe {
namespace {

using Json = nlohmann::ordered_json;
using communicator::Preview;

constexpr double kMicro = 1e6;
constexpr double kNano = 1e9;
constexpr double kGiga = 1e-9;

/// Rows of numbers, null where a rank would meet itself.
Json matrix_json(const Findings& findings, const Matrix& matrix, double unit) {
  Json rows = Json::array();
  for (std::size_t row = 0; row < findings.ranks.size(); ++row) {
    Json values = Json::array();
    for (std::size_t column = 0; column < findings.ranks.size(); ++column)
      values.push_back(row == column ? Json(nullptr) : Json(findings.at(matrix, row, column) * unit));
    rows.push_back(std::move(values));
  }
  return rows;
}

Json codec_json(const CodecFindings& codec) {
  const double break_even = codec.break_even_bits_per_s * kGiga;
  return {{"codec", codec.spec},
          {"encode_gbps", sizeof(float) * kGiga / codec.cost.encode_s},
          {"decode_gbps", sizeof(float) * kGiga / codec.cost.decode_s},
          {"ratio", codec.ratio},
          {"break_even_gbit", std::isfinite(break_even) ? Json(break_even) : Json(nullptr)}};
}

Json choice_json(const Preview& choice) {
  return {{"algorithm", choice.algorithm},
          {"slices", choice.slice_count},
          {"slices_in_flight", choice.slices_in_flight},
          {"expected_us", choice.seconds * kMicro}};
}

Json size_json(const Findings& findings, const SizeFindings& size) {
  Json json;
  json["bytes"] = size.bytes;
  json["raw"] = choice_json(size.raw);
  json["auto"] = Json::array();
  for (std::size_t i = 0; i < size.automatic.size(); ++i) {
    Json choice = choice_json(size.automatic[i]);
    choice["codec"] = findings.codecs[i].spec;
    choice["compresses"] = size.automatic[i].codec != "none";
    json["auto"].push_back(std::move(choice));
  }
  return json;
}

Json machine_json() {
  const bench::Machine machine = bench::describe_machine();
  return {{"host", machine.host}, {"cpu", machine.cpu}, {"cores", machine.cores}, {"system", machine.system}};
}

}  // namespace

nlohmann::ordered_json json_report(const Findings& findings, const std::string& command_line) {
  Json json;
  json["schema"] = kJsonSchema;
  json["machine"] = machine_json();
  json["version"] = ferruleVersion();
  json["command_line"] = command_line;
  json["transport"] = findings.transport;
  json["ranks"] = Json::array();
  for (const transport::Peer& peer : findings.ranks)
    json["ranks"].push_back({{"host", peer.host}, {"pid", peer.pid}, {"address", peer.address}});
  json["latency_us"] = matrix_json(findings, findings.latency_s, kMicro);
  json["bandwidth_gbps"] = matrix_json(findings, findings.bytes_per_s, kGiga);
  const plan::LinkModel& link = findings.tuning.link;
  json["link"] = {{"latency_us", link.latency_s * kMicro},
                  {"message_us", link.message_s * kMicro},
                  {"byte_ns", link.byte_s * kNano}};
  json["codecs"] = Json::array();
  for (const CodecFindings& codec : findings.codecs) json["codecs"].push_back(codec_json(codec));
  json["choices"] = Json::array();
  for (const SizeFindings& size : findings.sizes) json["choices"].push_back(size_json(findings, size));
  json["tuning"] = findings.tuning.to_string();
  return json;
}

}  // namespace ferrule::probe
