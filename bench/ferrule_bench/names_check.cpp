#include "bench/ferrule_bench/names_check.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "ferrule/codec_spec.hpp"
#include "ferrule/ferrule.hpp"

namespace ferrule::bench {
namespace {

/// Is `name` one of `names`, which commas separate?
bool is_listed(std::string_view name, std::string_view names) {
  while (!names.empty()) {
    const auto comma = names.find(',');
    if (names.substr(0, comma) == name) return true;
    names = comma == std::string_view::npos ? std::string_view() : names.substr(comma + 1);
  }
  return false;
}

Status check_listed(std::string_view kind, const std::string& name, const char* names) {
  if (is_listed(name, names)) return {};
  return Status(ErrorCode::invalid_argument,
                fmt::format("no {} '{}' in this build; there are: {}", kind, name, names));
}

Status check_writable(const std::string& path) {
  if (path.empty()) return {};
  const auto folder = std::filesystem::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK) == 0) return {};
  return Status(ErrorCode::invalid_argument,
                fmt::format("cannot write '{}': its folder does not exist or is not "
                            "writable",
                            path));
}

}  // namespace

Status check_names(const Options& options) {
  for (const std::string& spec : options.codecs) {
    FERRULE_RETURN_IF_ERROR(Codec::create(std::string(without_auto(spec))).status());
  }
  for (const std::string& name : options.algorithms) {
    const std::string collective(collective_name(options.operation));
    const char* names = collective.empty() ? "" : ferruleCollectiveAlgorithmNames(collective.c_str());
    if (name != "auto") FERRULE_RETURN_IF_ERROR(check_listed("algorithm", name, names));
  }
  if (!options.transport.empty())
    FERRULE_RETURN_IF_ERROR(check_listed("transport", options.transport, ferruleTransportNames()));
  FERRULE_RETURN_IF_ERROR(check_writable(options.json_path));
  return check_writable(options.plot_path);
}

}  // namespace ferrule::bench
