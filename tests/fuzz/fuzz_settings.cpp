// Settings: values with units, and whole environments of NAME=value lines.
#include "base/settings.hpp"
#include "base/text_values.hpp"
#include "fuzz/input.hpp"
#include "fuzz/require.hpp"

namespace {

using ferrule::fuzz::Input;

void check_values(std::string_view text) {
  const auto count = ferrule::parse_count(text);
  if (count.ok()) FERRULE_REQUIRE(*ferrule::parse_count(std::to_string(*count)) == *count);
  const auto bytes = ferrule::parse_bytes(text);
  if (bytes.ok()) FERRULE_REQUIRE(*ferrule::parse_bytes(std::to_string(*bytes)) == *bytes);
  const auto duration = ferrule::parse_duration(text);
  if (duration.ok()) {
    FERRULE_REQUIRE(duration->count() >= 0 && *duration <= std::chrono::hours(100 * 365 * 24));
    // Beyond 2^53 ns a double no longer holds every nanosecond.
    const auto again = ferrule::parse_duration(std::to_string(duration->count()) + "ns");
    FERRULE_REQUIRE(again.ok() && std::abs((*again - *duration).count()) <= 512);
  }
  if (count.ok()) FERRULE_REQUIRE(bytes.ok() && *bytes == *count);
  FERRULE_REQUIRE(ferrule::equal_ignoring_case(text, ferrule::to_lower(text)));
  (void)ferrule::parse_flag(text);
}

void check_environment(Input& input) {
  ferrule::Environment environment;
  while (!input.empty()) {
    const std::string_view line = input.line();
    const std::size_t equals = std::min(line.find('='), line.size());
    environment.emplace(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
  }
  const auto settings = ferrule::Settings::from(environment);
  if (settings.ok()) {
    FERRULE_REQUIRE(settings->duration("FERRULE_TIMEOUT").count() > 0);
    (void)settings->describe();
  } else {
    FERRULE_REQUIRE_OR(settings.status().text().starts_with("FERRULE_"), settings.status().text());
  }
  for (const auto& [name, nearest] : ferrule::settings::unknown_names(environment)) {
    FERRULE_REQUIRE(environment.contains(name) && name != nearest);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  Input input(data, bytes);
  if (input.flag()) {
    check_environment(input);
  } else {
    check_values(input.rest());
  }
  return 0;
}
