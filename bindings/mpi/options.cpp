#include "bindings/mpi/options.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/settings.hpp"
#include "ferrule/ferrule.h"

namespace ferrule::mpi {
namespace {

// MPI programs expect to wait for a slow rank for as long as it takes. Death is seen at once all the same.
constexpr std::int64_t kPatience_ns = 3600 * std::int64_t{1000000000};

[[noreturn]] void refuse(const std::string& text) {
  std::fprintf(stderr, "ferrule_mpi: %s\n", text.c_str());
  std::exit(2);
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// "auto:int4" is a wish of a communicator's, not a codec.
void check_codec(const std::string& spec) {
  constexpr std::string_view kAuto = "auto:";
  const std::string name = spec.starts_with(kAuto) ? spec.substr(kAuto.size()) : spec;
  ferruleCodec_t codec = nullptr;
  if (ferruleCodecCreate(&codec, name.c_str()) != ferruleSuccess) {
    refuse(std::string("FERRULE_CODEC: ") + ferruleGetLastError());
  }
  ferruleCodecDestroy(codec);
}

Options read() {
  Options read;
  const Result<Settings> found = Settings::from_environment();
  if (!found.ok()) refuse(found.status().text());
  const Settings& settings = *found;
  read.asked = is_set("FERRULE_CODEC") && !settings.flag("FERRULE_DISABLE");
  read.codec = settings.text("FERRULE_CODEC");
  if (read.asked) check_codec(read.codec);
  read.min_bytes = settings.bytes("FERRULE_MIN_BYTES");
  read.measure = settings.count("FERRULE_MPI_MEASURE");
  const std::string summary = settings.text("FERRULE_MPI_SUMMARY");
  read.summary = summary == "off"     ? SummaryTo::nobody
                 : summary == "rank0" ? SummaryTo::rank_zero
                                      : SummaryTo::all;
  read.timeout_ns = is_set("FERRULE_TIMEOUT") ? settings.duration("FERRULE_TIMEOUT").count() : kPatience_ns;
  return read;
}

}  // namespace

std::string Options::agreement() const {
  if (!asked) return "FERRULE_CODEC is not set";
  return "FERRULE_CODEC=" + codec + " FERRULE_MIN_BYTES=" + std::to_string(min_bytes) +
         " FERRULE_MPI_MEASURE=" + std::to_string(measure);
}

const Options& options() {
  static const Options once = read();
  return once;
}

}  // namespace ferrule::mpi
