#include "transport/decorators/fault_plan.hpp"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <optional>
#include <string>

namespace ferrule::transport {
namespace {

struct KindName {
  std::string_view name;
  FaultKind kind;
};

constexpr KindName kKinds[] = {
    {"drop", FaultKind::drop},
    {"delay", FaultKind::delay},
    {"corrupt_header", FaultKind::corrupt_header},
    {"corrupt_payload", FaultKind::corrupt_payload},
    {"truncate", FaultKind::truncate},
    {"die", FaultKind::die},
};

constexpr std::uint64_t kMaxRank = 0x7fffffff;
constexpr std::uint64_t kMaxDelayMs = 3'600'000;

Status bad(std::string_view one, std::string why) {
  return {ErrorCode::invalid_argument, fmt::format("fault '{}': {}", one.substr(0, 100), std::move(why))};
}

std::string kind_names() {
  std::string names;
  for (const KindName& kind : kKinds) names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
  return names;
}

std::optional<FaultKind> find_kind(std::string_view name) {
  for (const KindName& kind : kKinds) {
    if (kind.name == name) return kind.kind;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> read_number(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return number;
}

/// Puts one value in its place; what is wrong with it, or "".
std::string set(Fault& fault, std::string_view key, std::uint64_t number) {
  if (key == "nth") {
    if (number == 0) return "nth counts from 1";
    fault.nth = number;
  } else if (key == "rank") {
    if (number > kMaxRank) return "no such rank";
    fault.rank = static_cast<std::int32_t>(number);
  } else if (key == "seed") {
    fault.seed = number;
  } else if (key == "ms" && fault.kind == FaultKind::delay) {
    if (number > kMaxDelayMs) return "ms is more than an hour";
    fault.delay = std::chrono::milliseconds(number);
  } else if (key == "bytes" && fault.kind == FaultKind::truncate) {
    if (number == 0) return "bytes must be at least 1";
    fault.bytes = number;
  } else {
    return fmt::format("'{}' is no key here (expected nth, rank, seed, ms for delay, bytes for truncate)",
                       key);
  }
  return {};
}

Result<Fault> parse_one(std::string_view one) {
  const std::size_t colon = one.find(':');
  const auto kind = find_kind(one.substr(0, colon));
  if (!kind.has_value()) {
    return bad(
        one, fmt::format("'{}' is no fault (expected {})", one.substr(0, colon).substr(0, 40), kind_names()));
  }
  Fault fault;
  fault.kind = *kind;
  if (colon == std::string_view::npos) return bad(one, "it has no nth=N");
  bool has_nth = false;
  for (std::string_view rest = one.substr(colon + 1);;) {
    const std::size_t comma = rest.find(',');
    const std::string_view pair = rest.substr(0, comma);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos)
      return bad(one, fmt::format("'{}' is not key=value", pair.substr(0, 40)));
    const std::string_view key = pair.substr(0, equals);
    const auto number = read_number(pair.substr(equals + 1));
    if (!number.has_value())
      return bad(one, fmt::format("the value of '{}' is not a whole number", key.substr(0, 40)));
    if (std::string why = set(fault, key.substr(0, 40), *number); !why.empty())
      return bad(one, std::move(why));
    has_nth |= key == "nth";
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  if (!has_nth) return bad(one, "it has no nth=N");
  return fault;
}

}  // namespace

Result<FaultPlan> FaultPlan::parse(std::string_view text) {
  FaultPlan plan;
  for (std::string_view rest = text;;) {
    const std::size_t end = rest.find(';');
    const Result<Fault> fault = parse_one(rest.substr(0, end));
    if (!fault.ok()) return fault.status();
    plan.faults.push_back(fault.value());
    if (end == std::string_view::npos) return plan;
    rest = rest.substr(end + 1);
  }
}

}  // namespace ferrule::transport
