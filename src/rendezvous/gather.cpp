#include "rendezvous/gather.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "rendezvous/fields.hpp"
#include "rendezvous/store_protocol.hpp"

namespace ferrule::rendezvous {
namespace {

// How soon rank 0, while it waits for one rank, notices that another has spoiled the gathering.
constexpr auto kGlance = std::chrono::milliseconds(200);
// A look at a key that may be there. Not zero: stores of the caller's may take that for "no limit".
constexpr auto kLook = std::chrono::milliseconds(1);

std::string encode_status(const Status& status) {
  return pack({std::to_string(static_cast<int>(status.code())), status.text()});
}

Status decode_status(const std::vector<std::string>& fields) {
  int code = 0;
  if (fields.size() >= 2) std::from_chars(fields[0].data(), fields[0].data() + fields[0].size(), code);
  if (code == 0) return Status();
  const auto known = static_cast<ErrorCode>(code);
  return Status(error_code_name(known) == "unknown" ? ErrorCode::corrupt : known, fields[1]);
}

// Values larger than the store takes go in parts: "<key>/0" starts with the number of parts.
Status publish(Store& store, const std::string& key, std::string_view bytes) {
  constexpr std::size_t kPart = Store::kMaxValueBytes - 64;  // room for the number of parts, and for a seal
  const std::size_t parts = std::max<std::size_t>(1, (bytes.size() + kPart - 1) / kPart);
  // The first part last: whoever sees it finds the others in their places.
  for (std::size_t part = parts; part-- > 0;) {
    const std::string start = part == 0 ? encode_u64(parts) : std::string();
    FERRULE_RETURN_IF_ERROR(
        store.set(fmt::format("{}/{}", key, part), start + std::string(bytes.substr(part * kPart, kPart))));
  }
  return Status();
}

Result<std::string> fetch(Store& store, const std::string& key, Deadline deadline) {
  Result<std::string> whole = store.get(key + "/0", deadline);
  if (!whole.ok()) return whole;
  const std::uint64_t parts = whole->size() < 8 ? 0 : decode_u64(*whole);
  if (parts == 0 || parts > 4096)
    return Status(ErrorCode::corrupt, fmt::format("'{}' has no number of parts", key));
  std::string bytes = whole->substr(8);
  for (std::uint64_t part = 1; part < parts; ++part) {
    const Result<std::string> more = store.get(fmt::format("{}/{}", key, part), deadline);
    if (!more.ok()) return more;
    bytes += *more;
  }
  return bytes;
}

std::string seconds_text(std::chrono::nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  return fmt::format("{:.{}f}", seconds, seconds < 9.95 ? 1 : 0);
}

Status missing_ranks(const Gathering& g, std::chrono::nanoseconds waited) {
  std::vector<std::int32_t> missing;
  for (std::int32_t rank = 0; rank < g.size; ++rank) {
    if (!g.store.get(gather_key(g, rank), Deadline::after(kLook)).ok()) missing.push_back(rank);
  }
  const std::string seconds = seconds_text(waited);
  if (missing.empty()) {
    return Status(ErrorCode::timeout,
                  fmt::format("all {} ranks arrived at {}, but rank 0 did not answer within {} s", g.size,
                              g.store.describe(), seconds));
  }
  return Status(ErrorCode::timeout, fmt::format("{} of {} did not arrive within {} s at {}",
                                                list_ranks(missing), g.size, seconds, g.store.describe()));
}

// Rank 0's wait for one rank.
Result<std::string> wait_for(const Gathering& g, std::int32_t rank) {
  while (true) {
    if (g.lost) FERRULE_RETURN_IF_ERROR(g.lost());
    Result<std::string> value =
        g.store.get(gather_key(g, rank), earlier(g.deadline, Deadline::after(kGlance)));
    if (value.ok() || value.status().code() != ErrorCode::timeout) return value;
    const Result<std::string> spoiled = g.store.get(g.prefix + "/problem", Deadline::after(kLook));
    if (spoiled.ok()) {
      const auto fields = unpack(*spoiled);
      const Status problem = fields.ok() ? decode_status(*fields) : fields.status();
      if (!problem.ok()) return problem;
      return Status(ErrorCode::corrupt, g.prefix + ": a rank reports a problem, and does not say which");
    }
    if (g.deadline.passed()) return value;
  }
}

Result<std::vector<std::string>> collect(const Gathering& g, const std::string& mine) {
  std::vector<std::string> values;
  for (std::int32_t rank = 0; rank < g.size; ++rank) {
    Result<std::string> value = rank == g.rank ? Result<std::string>(mine) : wait_for(g, rank);
    if (!value.ok()) return value.status();
    if (g.check) FERRULE_RETURN_IF_ERROR(g.check(rank, *value));
    values.push_back(std::move(*value));
  }
  return values;
}

// Rank 0 watches the others and tells all; so the others need to watch only rank 0. A server ends with it,
// and its clients' connections too: only other stores are asked again and again.
Result<std::string> fetch_all(const Gathering& g) {
  const std::string key = g.prefix + "/all";
  const bool served = g.store.describe().starts_with("tcp://");
  while (g.lost && !served && !g.deadline.passed()) {
    const auto there = g.store.get(key + "/0", earlier(g.deadline, Deadline::after(kGlance)));
    if (there.ok() || there.status().code() != ErrorCode::timeout) break;
    FERRULE_RETURN_IF_ERROR(g.lost());
  }
  return fetch(g.store, key, g.deadline);
}

}  // namespace

std::string gather_key(const Gathering& gathering, std::int32_t rank) {
  return fmt::format("{}/{}", gathering.prefix, rank);
}

std::string list_ranks(const std::vector<std::int32_t>& ranks) {
  constexpr std::size_t kShown = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t shown = std::min(ranks.size(), kShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == ranks.size();
    text += fmt::format("{}{}", i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  return shown == ranks.size() ? text : text + fmt::format(" and {} more", ranks.size() - shown);
}

bool has_ended(const Gathering& gathering) {
  return gathering.store.get(gathering.prefix + "/all/0", Deadline::after(kLook)).ok();
}

void spoil(const Gathering& gathering, const Status& why) {
  // The first one to complain is heard; a second complaint is refused by the store, which is fine.
  (void)gathering.store.set(gathering.prefix + "/problem", encode_status(why));
}

Result<std::vector<std::string>> gather(const Gathering& g, const std::string& mine) {
  const auto time = g.deadline.left();
  FERRULE_RETURN_IF_ERROR(g.store.set(gather_key(g, g.rank), mine));
  if (g.rank == 0) {
    Result<std::vector<std::string>> values = collect(g, mine);
    if (!values.ok() && values.status().code() == ErrorCode::timeout && g.deadline.passed()) {
      values = missing_ranks(g, time);
    }
    const std::string verdict = encode_status(values.status());
    FERRULE_RETURN_IF_ERROR(
        publish(g.store, g.prefix + "/all", pack({verdict, values.ok() ? pack(*values) : ""})));
    return values;
  }
  const Result<std::string> all = fetch_all(g);
  if (!all.ok()) return all.status().code() == ErrorCode::timeout ? missing_ranks(g, time) : all.status();
  const auto parts = unpack(*all);
  if (!parts.ok()) return parts.status();
  if (parts->size() != 2) return Status(ErrorCode::corrupt, g.prefix + ": rank 0's answer has not two parts");
  const auto verdict = unpack((*parts)[0]);
  if (!verdict.ok()) return verdict.status();
  FERRULE_RETURN_IF_ERROR(decode_status(*verdict));
  return unpack((*parts)[1]);
}

}  // namespace ferrule::rendezvous
