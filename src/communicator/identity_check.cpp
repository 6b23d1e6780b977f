#include "communicator/identity_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.hpp"
#include "communicator/agreement.hpp"

namespace ferrule::communicator {

void IdentityCheck::begin(const std::string& what, std::uint32_t sequence, std::uint64_t hash) {
  what_ = what;
  sequence_ = sequence;
  hash_ = hash;
  round_ = 0;
  round_sent_ = false;
  equal_ = true;
  told_all_ = false;
  waiting_for_ = -1;
}

Result<bool> IdentityCheck::step() {
  const std::int64_t world = membership_.size();
  for (; (std::int64_t{1} << round_) < world; ++round_, round_sent_ = false) {
    const std::int64_t distance = std::int64_t{1} << round_;
    if (!round_sent_) {
      const auto to = static_cast<std::int32_t>((membership_.rank + distance) % world);
      control_.send_hash(to, sequence_, round_, hash_, equal_);
    }
    round_sent_ = true;
    const auto from = static_cast<std::int32_t>((membership_.rank - distance % world + world) % world);
    waiting_for_ = from;
    const auto heard = heard_.find({sequence_, {from, round_}});
    if (heard == heard_.end()) return false;
    equal_ = equal_ && heard->second.equal && heard->second.hash == hash_;
  }
  waiting_for_ = -1;
  return equal_ ? Result<bool>(true) : name_the_odd_one();
}

Result<bool> IdentityCheck::name_the_odd_one() {
  std::vector<std::uint64_t> hashes;
  for (std::int32_t rank = 0; rank < membership_.size(); ++rank) {
    if (rank == membership_.rank) {
      hashes.push_back(hash_);
      continue;
    }
    if (!told_all_) control_.send_hash(rank, sequence_, kToAll, hash_, false);
    const auto heard = heard_.find({sequence_, {rank, kToAll}});
    if (heard == heard_.end()) {
      waiting_for_ = rank;
    } else {
      hashes.push_back(heard->second.hash);
    }
  }
  told_all_ = true;
  if (hashes.size() != membership_.peers.size()) return false;
  return explain(hashes);
}

Status IdentityCheck::explain(const std::vector<std::uint64_t>& hashes) const {
  std::map<std::uint64_t, std::size_t> times;
  for (const std::uint64_t hash : hashes) ++times[hash];
  const auto most = std::max_element(times.begin(), times.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool majority = 2 * most->second > hashes.size();
  std::string odd;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (majority && hashes[rank] == most->first) continue;
    odd += fmt::format("{}{} has {:016x}", odd.empty() ? "" : ", ",
                       membership_.describe(static_cast<std::int32_t>(rank)), hashes[rank]);
  }
  return Status(ErrorCode::corrupt,
                fmt::format("the results of {} differ between ranks: {}{}. The numbers of the odd "
                            "rank cannot be trusted: suspect its memory, and its build of this library",
                            what_, odd,
                            majority ? fmt::format(", the other {} have {:016x}", most->second, most->first)
                                     : std::string(", and there is no majority")));
}

void IdentityCheck::take(const ControlMessage& message) {
  if (heard_.size() >= kMaxHeard) {
    log::warn("dropped a hash from rank {} of collective #{}: too many are waiting", message.source,
              message.sequence);
    return;
  }
  heard_[{message.sequence, {message.source, message.round}}] = {message.identity, message.equal};
}

void IdentityCheck::finish(std::uint32_t sequence) {
  std::erase_if(heard_, [&](const auto& entry) { return at_or_after(sequence, entry.first.first); });
}

}  // namespace ferrule::communicator
