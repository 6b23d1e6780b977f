// C API: what this build is.
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/secret_key.hpp"
#include "base/settings.hpp"
#include "codec/codec.hpp"
#include "codec/simd/target.hpp"
#include "collectives/schedule.hpp"
#include "communicator/c_api.hpp"
#include "transport/registry.hpp"

namespace ferrule::c_api {
namespace {

thread_local std::string last_error_text;

template <class Range, class Name>
std::string join_names(const Range& range, Name name) {
  std::string text;
  for (const auto& item : range) text += (text.empty() ? "" : ",") + std::string(name(item));
  return text;
}

std::string settings_text() {
  const auto settings = Settings::from_environment();
  if (!settings.ok()) return settings.status().text();
  const std::string given = settings->describe();
  return given.empty() ? "all at their defaults" : given;
}

std::string_view authentication_text() {
  const std::string_view library = ferrule::SecretKey::library();
  return library.empty() ? "none (built without libsodium)" : library;
}

std::string codec_list() {
  return join_names(codec::codec_names(), [](const std::string& name) -> std::string_view { return name; });
}
std::string algorithm_list() {
  return join_names(collectives::algorithms(),
                    [](const collectives::AlgorithmDesc& each) { return each.name; });
}
std::string transport_list() {
  return join_names(transport::transports(), [](const transport::TransportDesc& each) { return each.name; });
}

}  // namespace

ferruleResult_t report(const Status& status) {
  if (!status.ok()) last_error_text = status.text();
  return static_cast<ferruleResult_t>(status.code());
}

const char* last_error() { return last_error_text.c_str(); }

}  // namespace ferrule::c_api

using namespace ferrule::c_api;  // NOLINT: this file is the other half of that namespace

extern "C" {

const char* ferruleVersion(void) { return FERRULE_VERSION_TEXT; }

const char* ferruleGetResultName(ferruleResult_t result) {
  if (result == ferruleInProgress) return "in_progress";
  return ferrule::error_code_name(static_cast<ferrule::ErrorCode>(result)).data();
}

const char* ferruleGetLastError(void) { return last_error(); }

const char* ferruleCodecNames(void) {
  static const std::string names = codec_list();
  return names.c_str();
}

const char* ferruleAlgorithmNames(void) {
  static const std::string names = algorithm_list();
  return names.c_str();
}

const char* ferruleTransportNames(void) {
  static const std::string names = transport_list();
  return names.c_str();
}

const char* ferruleInfo(void) {
  thread_local std::string text;
  text = fmt::format(
      "ferrule {}\nbuilt with {}\ncodecs: {}\nalgorithms: {}\ntransports: {}\nSIMD: {}\nauthentication: "
      "{}\nsettings: {}\n",
      FERRULE_VERSION_TEXT, FERRULE_BUILD_TEXT, codec_list(), algorithm_list(), transport_list(),
      ferrule::codec::simd::simd_target_name(), authentication_text(), settings_text());
  return text.c_str();
}

}  // extern "C"
