#include "communicator/roll_call.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "communicator/agreement.hpp"

namespace ferrule::communicator {
namespace {

// For an answer: a message there and back, and a rank that shares its core with others.
constexpr std::chrono::milliseconds kAnswer{150};
constexpr std::size_t kNamed = 16;

/// "rank 2", "ranks 0, 1, 3"
std::string list(const std::vector<std::int32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  }
  return ranks.size() <= kNamed ? text : text + fmt::format(" and {} more", ranks.size() - kNamed);
}

}  // namespace

void RollCall::begin(std::uint32_t sequence) {
  sequence_ = sequence;
  begun_ = true;
  calling_ = false;
  missing_.clear();
}

void RollCall::start() {
  calling_ = true;
  asks_all_ = false;
  asked_ = 0;
  spoken_ = -1;
  here_.assign(membership_.peers.size(), 0);
  here_[static_cast<std::size_t>(membership_.rank)] = 1;
  next_ = Deadline::after(std::chrono::nanoseconds(0));
}

bool RollCall::step() {
  if (!calling_) return false;
  if (spoken_ >= 0) {
    calling_ = false;
    return false;
  }
  if (!next_.passed()) return false;
  if (asks_all_) {
    conclude();
    return true;
  }
  const std::int32_t first = asked_;
  asked_ = std::min(membership_.rank, 2 * asked_ + 1);
  asks_all_ = first == membership_.rank;
  if (asks_all_) {
    ask(membership_.rank + 1, membership_.size());
  } else {
    ask(first, asked_);
  }
  next_ = Deadline::after(kAnswer);
  return false;
}

void RollCall::ask(std::int32_t first, std::int32_t last) {
  for (std::int32_t peer = first; peer < last; ++peer) {
    control_.send_word(ControlType::ask, peer, sequence_, {});
  }
}

std::string RollCall::name_absent(const std::function<std::string(std::int32_t)>& name) const {
  std::string text;
  std::size_t absent = 0;
  for (std::int32_t rank = 0; rank < membership_.size(); ++rank) {
    if (here_[static_cast<std::size_t>(rank)] != 0 || ++absent > kNamed) continue;
    text += (text.empty() ? "" : ", ") + name(rank);
  }
  return absent <= kNamed ? text : text + fmt::format(" and {} more", absent - kNamed);
}

std::string RollCall::missing_on_hosts() const {
  return name_absent([this](std::int32_t rank) {
    return fmt::format("rank {} on host {}", rank, membership_.peers[static_cast<std::size_t>(rank)].host);
  });
}

void RollCall::conclude() {
  calling_ = false;
  missing_ = name_absent([this](std::int32_t rank) { return membership_.describe(rank); });
  if (missing_.empty()) return;
  for (std::int32_t rank = 0; rank < membership_.size(); ++rank) {
    if (rank == membership_.rank || here_[static_cast<std::size_t>(rank)] == 0) continue;
    control_.send_word(ControlType::missing, rank, sequence_, missing_);
  }
}

void RollCall::take(const ControlMessage& message) {
  if (message.type == ControlType::ask) {
    const bool arrived = begun_ && at_or_after(sequence_, message.sequence);
    if (arrived) control_.send_word(ControlType::here, message.source, message.sequence, {});
    return;
  }
  if (message.sequence != sequence_) return;
  if (message.type == ControlType::missing) missing_ = message.text;
  if (message.type != ControlType::here || here_.empty()) return;
  here_[static_cast<std::size_t>(message.source)] = 1;
  if (message.source < membership_.rank) spoken_ = message.source;
}

bool RollCall::all_arrived() const {
  return std::all_of(here_.begin(), here_.end(), [](char here) { return here != 0; });
}

std::string RollCall::arrived() const {
  std::vector<std::int32_t> ranks;
  for (std::size_t rank = 0; rank < here_.size(); ++rank) {
    if (here_[rank] != 0) ranks.push_back(static_cast<std::int32_t>(rank));
  }
  return list(ranks) + (ranks.size() == 1 ? " has arrived" : " have arrived");
}

}  // namespace ferrule::communicator
