#include "communicator/agreement.hpp"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "base/log.hpp"

namespace ferrule::communicator {
namespace {

constexpr std::uint32_t kEveryRound = 0xffffffffU;  // a question or an answer outside the rounds

std::vector<std::pair<std::string_view, std::string_view>> parse_descriptor(std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> fields;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      fields.emplace_back(line.substr(0, equals), line.substr(equals + 1));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return fields;
}

std::string_view value_of(const std::vector<std::pair<std::string_view, std::string_view>>& fields,
                          std::string_view key) {
  for (const auto& [name, value] : fields) {
    if (name == key) return value;
  }
  return "unknown";
}

}  // namespace

std::string Intent::descriptor() const {
  return plan->descriptor() + fmt::format("seed={}\nstep={}\ntensor={}\nweighted={}\nFERRULE_CHECK={}\n",
                                          draws.seed, draws.step, draws.tensor, draws.weighted ? "yes" : "no",
                                          draws.check);
}

std::uint32_t Agreement::rounds() const {
  std::uint32_t count = 0;
  while ((std::int64_t{1} << count) < membership_.size()) ++count;
  return count;
}

std::int32_t Agreement::peer_at(std::int64_t distance) const {
  const std::int64_t world = membership_.size();
  return static_cast<std::int32_t>(((membership_.rank + distance) % world + world) % world);
}

Agreement::Record* Agreement::find(std::uint32_t sequence) {
  std::optional<Record>& record = history_[sequence % kHistory];
  return record.has_value() && record->intent.sequence == sequence ? &*record : nullptr;
}

void Agreement::send_round(const Intent& intent, std::uint32_t round) {
  control_.send_agree(peer_at(std::int64_t{1} << round), intent.sequence, round, intent.identity,
                      intent.descriptor());
}

void Agreement::begin(const Intent& intent) {
  history_[intent.sequence % kHistory] = Record{intent, false};
  current_ = intent.sequence;
  round_ = 0;
  round_sent_ = false;
  Record& record = *history_[intent.sequence % kHistory];
  for (const auto& [key, heard] : heard_) {
    if (key.first == intent.sequence) compare(record, key.second.first, heard.identity, heard.descriptor);
  }
}

Result<bool> Agreement::step() {
  if (const auto failure = failure_of(current_)) return *failure;
  Record& record = *find(current_);
  if (record.intent.agreed_before) return true;
  record.joined = true;
  for (; round_ < rounds(); ++round_, round_sent_ = false) {
    if (!round_sent_) send_round(record.intent, round_);
    round_sent_ = true;
    const std::int32_t source = peer_at(-(std::int64_t{1} << round_));
    if (heard_.find({current_, {source, round_}}) == heard_.end()) return false;
  }
  return true;
}

void Agreement::ask_all() {
  const Record& record = *find(current_);
  for (std::int32_t peer = 0; peer < membership_.size(); ++peer) {
    if (peer == membership_.rank) continue;
    control_.send_agree(peer, current_, kEveryRound, record.intent.identity, record.intent.descriptor());
  }
}

void Agreement::take(const ControlMessage& message) {
  if (message.type == ControlType::failed) {
    const std::string reason = message.text.empty()
                                   ? fmt::format("rank {} has failed, and gives no reason", message.source)
                                   : message.text;
    // A peer may name any number of collectives to come.
    if (failures_.size() < kMaxHeard || message.sequence == current_) {
      failures_.try_emplace(message.sequence, message.code, reason);
    } else {
      log::warn("dropped a failure of collective #{} that rank {} told: too many are waiting",
                message.sequence, message.source);
    }
    if (!survives(message.code) && !lost_.has_value()) {
      lost_ = Lost{message.sequence, Status(message.code, reason)};
    }
    return;
  }
  Record* record = find(message.sequence);
  const bool ahead = record == nullptr && at_or_after(message.sequence, current_);
  if ((record != nullptr && message.sequence == current_) || ahead) {
    if (heard_.size() >= kMaxHeard) {
      log::warn("dropped a word from rank {} about collective #{}: too many are waiting", message.source,
                message.sequence);
      return;
    }
    heard_[{message.sequence, {message.source, message.round}}] = {message.identity, message.text};
  }
  if (record != nullptr) compare(*record, message.source, message.identity, message.text);
}

void Agreement::compare(Record& record, std::int32_t source, std::uint64_t identity,
                        const std::string& descriptor) {
  if (identity != record.intent.identity) {
    const Status why(ErrorCode::mismatch, explain(record.intent, source, descriptor));
    if (failures_.try_emplace(record.intent.sequence, why).second) tell_failed(record.intent.sequence, why);
    return;
  }
  // The peer compares a plan that this rank has compared before: take part, or it would wait in vain.
  if (!record.intent.agreed_before || record.joined) return;
  record.joined = true;
  for (std::uint32_t round = 0; round < rounds(); ++round) send_round(record.intent, round);
}

std::string Agreement::explain(const Intent& mine, std::int32_t source, const std::string& theirs) const {
  const std::string own = mine.descriptor();
  const auto my_fields = parse_descriptor(own);
  const auto their_fields = parse_descriptor(theirs);
  std::string differences;
  for (const auto& [name, value] : my_fields) {
    const std::string_view other = value_of(their_fields, name);
    if (other == value) continue;
    if (!differences.empty()) differences += ", ";
    differences += fmt::format("{} is {} on {} but {} on {}", name, value,
                               membership_.describe(membership_.rank), other, membership_.describe(source));
  }
  if (differences.empty()) differences = "the plans differ in a way that their descriptions do not show";
  return fmt::format("ranks disagree about {} #{}: {}. Make the calls equal on all ranks", mine.plan->name(),
                     mine.sequence, differences);
}

std::optional<Status> Agreement::failure_of(std::uint32_t sequence) const {
  const auto found = failures_.find(sequence);
  if (found != failures_.end()) return found->second;
  if (lost_.has_value() && at_or_after(sequence, lost_->since)) return lost_->why;
  return std::nullopt;
}

void Agreement::tell_failed(std::uint32_t sequence, const Status& why) {
  for (std::int32_t peer = 0; peer < membership_.size(); ++peer) {
    if (peer != membership_.rank) control_.send_failed(peer, sequence, why);
  }
}

void Agreement::finish(std::uint32_t sequence) {
  std::erase_if(heard_, [&](const auto& entry) { return at_or_after(sequence, entry.first.first); });
  std::erase_if(failures_, [&](const auto& entry) { return at_or_after(sequence, entry.first); });
}

std::int32_t Agreement::waiting_for() const {
  return round_ < rounds() ? peer_at(-(std::int64_t{1} << round_)) : -1;
}

}  // namespace ferrule::communicator
