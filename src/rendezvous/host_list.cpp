#include "rendezvous/host_list.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_values.hpp"

namespace ferrule::rendezvous {
namespace {

constexpr std::size_t kMaxHosts = 65536;
constexpr std::size_t kMaxNameBytes =
    255;  // of DNS; with kMaxHosts it bounds what a short text can expand to

using Names = std::vector<std::string>;

Status bad(std::string_view text, std::string_view why) {
  return Status(
      ErrorCode::invalid_argument,
      fmt::format("host list '{}': {} (expected a form such as node[1-3,7])", text.substr(0, 200), why));
}

// Cuts at commas that stand outside brackets; empty on unbalanced brackets.
std::vector<std::string_view> cut_outside_brackets(std::string_view text) {
  std::vector<std::string_view> parts;
  bool inside = false;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((text[i] == '[' && inside) || (text[i] == ']' && !inside)) return {};
    if (text[i] == '[' || text[i] == ']') inside = !inside;
    if (text[i] != ',' || inside) continue;
    parts.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  if (inside) return {};
  parts.push_back(text.substr(start));
  return parts;
}

// "1-3" or "007"; leading zeros give the width.
Result<Names> expand_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::string_view first_text = text.substr(0, dash);
  const auto first = parse_count(first_text);
  const auto last = dash == std::string_view::npos ? first : parse_count(text.substr(dash + 1));
  if (!first.ok() || !last.ok() || last.value() < first.value() ||
      last.value() - first.value() >= kMaxHosts || first_text.size() > kMaxNameBytes) {
    return bad(text, "not a range of numbers");
  }
  Names numbers;
  // By offset: the last number may be the largest of its type.
  for (std::uint64_t i = 0; i <= last.value() - first.value(); ++i) {
    numbers.push_back(fmt::format("{:0{}}", first.value() + i, first_text.size()));
  }
  return numbers;
}

Result<Names> expand_ranges(std::string_view inside) {
  Names all;
  for (const std::string_view range : cut_outside_brackets(inside)) {
    Result<Names> numbers = expand_range(range);
    if (!numbers.ok()) return numbers;
    all.insert(all.end(), numbers->begin(), numbers->end());
    if (all.size() > kMaxHosts) return bad(inside, "too many hosts");
  }
  return all;
}

Result<Names> product(const Names& starts, const Names& ends) {
  if (starts.size() * ends.size() > kMaxHosts) return bad(starts.front(), "too many hosts");
  Names all;
  for (const std::string& start : starts) {
    for (const std::string& end : ends) all.push_back(start + end);
  }
  return all;
}

// One name with any number of brackets.
Result<Names> expand_name(std::string_view text) {
  Names names = {""};
  while (!text.empty()) {
    const std::size_t open = text.find('[');
    if (names.front().size() + std::min(open, text.size()) > kMaxNameBytes)
      return bad(text, "too long a name");
    for (std::string& name : names) name += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = text.find(']');
    const Result<Names> numbers = expand_ranges(text.substr(open + 1, close - open - 1));
    if (!numbers.ok()) return numbers.status();
    Result<Names> longer = product(names, numbers.value());
    if (!longer.ok()) return longer;
    names = std::move(longer.value());
    text.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> expand_host_list(std::string_view text) {
  Names hosts;
  const auto parts = cut_outside_brackets(text);
  if (parts.empty()) return bad(text, "brackets do not match");
  for (const std::string_view part : parts) {
    if (part.empty()) return bad(text, "an empty name");
    Result<Names> names = expand_name(part);
    if (!names.ok()) return bad(text, names.status().text());
    hosts.insert(hosts.end(), names->begin(), names->end());
    if (hosts.size() > kMaxHosts) return bad(text, "too many hosts");
  }
  return hosts;
}

}  // namespace ferrule::rendezvous
