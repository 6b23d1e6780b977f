#include "base/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>

#include "base/log.hpp"
#include "base/text_values.hpp"

namespace ferrule {
namespace {

Status out_of_limits(std::string_view text, std::string_view allowed) {
  return Status(ErrorCode::invalid_argument, fmt::format("'{}' is not {}", text.substr(0, 100), allowed));
}

Result<std::string> parse_choice(std::string_view text, std::string_view choices) {
  for (std::string_view rest = choices; !rest.empty();) {
    const std::size_t bar = std::min(rest.find('|'), rest.size());
    if (equal_ignoring_case(rest.substr(0, bar), text)) return std::string(rest.substr(0, bar));
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  return out_of_limits(text, fmt::format("one of {}", choices));
}

template <class T>
Result<T> within(Result<T> value, const SettingRow& row, std::string_view text) {
  if (value.ok() && row.limits == ">0" && value.value() == T{}) return out_of_limits(text, "more than 0");
  return value;
}

Status name_variable(const SettingRow& row, const Status& why) {
  return Status(why.code(), fmt::format("{}={}", row.name, why.text()));
}

// Levenshtein distance; names are short, so the plain quadratic form will do.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string nearest_name(std::string_view name) {
  // Beyond a third of the part that differs it is no longer a likely typo.
  std::size_t best = std::max<std::size_t>(2, (name.size() - 8) / 3) + 1;
  std::string nearest;
  for (const SettingRow& row : kSettingRows) {
    const std::size_t distance = edit_distance(name, row.name);
    if (distance < best) {
      best = distance;
      nearest = row.name;
    }
  }
  return nearest;
}

void warn_of_unknown_names(const Environment& environment) {
  static std::mutex mutex;
  static auto* warned = new std::set<std::string>;  // outlives everything that may still log at exit
  const std::lock_guard lock(mutex);
  for (const auto& [name, nearest] : settings::unknown_names(environment)) {
    if (!warned->insert(name).second) continue;
    log::warn("{} is set, but Ferrule knows no such setting{}; docs/settings.md lists them", name,
              nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
  }
}

// This variable's text, by getenv: cheap enough for low layers to call when they start.
std::string_view current_text(const SettingRow& row) {
  const char* value = std::getenv(row.name.data());  // row names are literals, so they end in a zero
  return value == nullptr || *value == '\0' ? row.default_text : std::string_view(value);
}

template <class T>
Result<T> current_value(const SettingRow& row, Result<T> (*parse)(std::string_view)) {
  const std::string_view text = current_text(row);
  auto value = within(parse(text), row, text);
  if (!value.ok()) return name_variable(row, value.status());
  return value;
}

}  // namespace

Status Settings::parse(const SettingRow& row, std::string_view text, Value& out) {
  const auto store = [&out](auto result) {
    if (result.ok()) out.emplace<std::decay_t<decltype(result.value())>>(std::move(result.value()));
    return result.status();
  };
  switch (row.type) {
    case SettingType::text:
      out.emplace<std::string>(text);
      return Status();
    case SettingType::choice:
      return store(parse_choice(text, row.limits));
    case SettingType::flag:
      return store(parse_flag(text));
    case SettingType::count:
      return store(within(parse_count(text), row, text));
    case SettingType::bytes:
      return store(within(parse_bytes(text), row, text));
    case SettingType::duration:
      return store(within(parse_duration(text), row, text));
  }
  return Status(ErrorCode::internal, fmt::format("setting {} has no type", row.name));
}

Result<Settings> Settings::from(const Environment& environment) {
  Settings settings;
  for (std::size_t i = 0; i < kSettingCount; ++i) {
    const SettingRow& row = kSettingRows[i];
    const std::string_view given = lookup(environment, row.name);
    Value& value = settings.values_[i];
    Status status = parse(row, given.empty() ? row.default_text : given, value);
    if (!status.ok() && !row.bad_value_is_error) status = parse(row, row.default_text, value);
    if (!status.ok()) return name_variable(row, status);
    if (!given.empty()) settings.given_.emplace_back(row.name, row.is_secret ? "(set)" : given);
  }
  return settings;
}

Result<Settings> Settings::from_environment() {
  const Environment environment = process_environment();
  warn_of_unknown_names(environment);
  return from(environment);
}

std::string Settings::describe() const {
  std::string text;
  for (const auto& [name, value] : given_) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  }
  return text;
}

namespace settings {

std::string text(SettingName<SettingType::text> name) { return std::string(current_text(name.row())); }
Result<bool> flag(SettingName<SettingType::flag> name) { return current_value(name.row(), parse_flag); }
Result<std::uint64_t> count(SettingName<SettingType::count> name) {
  return current_value(name.row(), parse_count);
}
Result<std::uint64_t> bytes(SettingName<SettingType::bytes> name) {
  return current_value(name.row(), parse_bytes);
}
Result<std::chrono::nanoseconds> duration(SettingName<SettingType::duration> name) {
  return current_value(name.row(), parse_duration);
}

std::vector<std::pair<std::string, std::string>> unknown_names(const Environment& environment) {
  std::vector<std::pair<std::string, std::string>> unknown;
  for (auto at = environment.lower_bound("FERRULE_");
       at != environment.end() && at->first.starts_with("FERRULE_"); ++at) {
    const bool known =
        std::ranges::any_of(kSettingRows, [&](const auto& row) { return row.name == at->first; });
    if (!known) unknown.emplace_back(at->first, nearest_name(at->first));
  }
  return unknown;
}

}  // namespace settings
}  // namespace ferrule
