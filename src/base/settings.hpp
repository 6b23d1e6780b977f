// Values of the FERRULE_* variables. The table is settings_table.hpp.
//
// Thread safety: all of it, as long as no other thread changes the environment at the same time.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/environment.hpp"
#include "base/settings_table.hpp"
#include "ferrule/status.hpp"

namespace ferrule {

/// All settings, read and checked at once.
class Settings {
 public:
  /// Reads them all. The error names the variable, its value and what is allowed. Names that start with
  /// FERRULE_ but are in no row are warned of, once a process each.
  static Result<Settings> from_environment();
  /// The same without looking at the process, and without warnings.
  static Result<Settings> from(const Environment& environment);

  const std::string& text(SettingName<SettingType::text> name) const {
    return std::get<std::string>(values_[name.index()]);
  }
  bool flag(SettingName<SettingType::flag> name) const { return std::get<bool>(values_[name.index()]); }
  std::uint64_t count(SettingName<SettingType::count> name) const {
    return std::get<std::uint64_t>(values_[name.index()]);
  }
  std::uint64_t bytes(SettingName<SettingType::bytes> name) const {
    return std::get<std::uint64_t>(values_[name.index()]);
  }
  std::chrono::nanoseconds duration(SettingName<SettingType::duration> name) const {
    return std::get<std::chrono::nanoseconds>(values_[name.index()]);
  }

  /// The settings that were set, "FERRULE_CODEC=int4 FERRULE_TIMEOUT=5s"; "" where all have their defaults.
  /// Of a secret only that it is set.
  std::string describe() const;

 private:
  using Value = std::variant<std::string, bool, std::uint64_t, std::chrono::nanoseconds>;
  static Status parse(const SettingRow& row, std::string_view text, Value& out);

  std::array<Value, kSettingCount> values_;
  std::vector<std::pair<std::string, std::string>> given_;
};

/// One setting at a time, for low layers that are handed no Settings.
namespace settings {

/// As given, or the default; a choice is not checked.
std::string text(SettingName<SettingType::text> name);
Result<bool> flag(SettingName<SettingType::flag> name);
Result<std::uint64_t> count(SettingName<SettingType::count> name);
Result<std::uint64_t> bytes(SettingName<SettingType::bytes> name);
Result<std::chrono::nanoseconds> duration(SettingName<SettingType::duration> name);

/// FERRULE_* names without a row, each with the nearest known name, or "" where none is near.
std::vector<std::pair<std::string, std::string>> unknown_names(const Environment& environment);

/// docs/settings.md.
std::string markdown();

}  // namespace settings
}  // namespace ferrule
