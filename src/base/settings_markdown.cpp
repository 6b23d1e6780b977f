#include <fmt/format.h>

#include "base/settings.hpp"

namespace ferrule::settings {
namespace {

constexpr std::string_view kIntroduction = R"(# Settings

All settings are environment variables. What a call says itself goes before them; an empty value means the
default. A value that cannot be understood is an error that names the variable and what is allowed; a name
that starts with `FERRULE_` and is not in this table is warned of once.

Types: *flag* is 1 or 0 (also yes/no, true/false, on/off). *bytes* may end in K, M or G (powers of 1024).
*duration* ends in ns, us, ms, s, m or h; a bare number is seconds. *choice* may be in any case.

| variable | type | default | meaning |
|---|---|---|---|
)";

constexpr std::string_view kEnd = R"(
This page is generated from `src/base/settings_table.hpp` by `settings_docs --write`; a test fails when it is
out of date.
)";

std::string_view type_name(SettingType type) {
  switch (type) {
    case SettingType::text:
      return "text";
    case SettingType::flag:
      return "flag";
    case SettingType::count:
      return "count";
    case SettingType::bytes:
      return "bytes";
    case SettingType::duration:
      return "duration";
    case SettingType::choice:
      return "choice";
  }
  return "unknown";
}

std::string type_text(const SettingRow& row) {
  std::string text(type_name(row.type));
  if (row.limits.empty()) return text;
  text += row.type == SettingType::choice ? ": " : " ";
  for (const char c : row.limits) text += c == '|' ? std::string(", ") : std::string(1, c);
  return text;
}

}  // namespace

std::string markdown() {
  std::string text(kIntroduction);
  for (const SettingRow& row : kSettingRows) {
    const std::string shown = row.default_text.empty() ? "" : fmt::format("`{}`", row.default_text);
    text += fmt::format("| `{}` | {} | {} | {} |\n", row.name, type_text(row), shown, row.meaning);
  }
  return text.append(kEnd);
}

}  // namespace ferrule::settings
