#include "communicator/muster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/process.hpp"
#include "communicator/lineage.hpp"
#include "rendezvous/fields.hpp"
#include "rendezvous/refuge.hpp"

namespace ferrule::communicator {
namespace {

using std::chrono::milliseconds;

/// A look at a key that may be there.
constexpr milliseconds kLook{1};
/// Between two looks of a leader at its refuge.
constexpr milliseconds kPause{3};
/// How often one who waits makes sure that the leader lives.
constexpr milliseconds kGlance{50};
/// For a refuge to answer when it is asked whether its rank has left, ...
constexpr milliseconds kProbe{200};
/// ... and how often each is asked.
constexpr milliseconds kProbeEvery{250};

/// Lets those who wait know that this rank leads.
class Announcement {
 public:
  Announcement(rendezvous::Refuge& refuge, std::string key) : refuge_(refuge), key_(std::move(key)) {
    (void)refuge_.store()->set(key_, "1");  // those who do not see it go to the next one earlier
  }
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;
  ~Announcement() { refuge_.forget(key_); }

 private:
  rendezvous::Refuge& refuge_;
  const std::string key_;
};

class Mustering {
 public:
  Mustering(const Descent& descent, Deadline deadline)
      : line_(*descent.lineage), ranks_(descent.root_ranks), me_(line_.root.rank), deadline_(deadline) {}

  Result<Muster> run() {
    for (const std::int32_t rank : ranks_) {
      if (rank == me_) return lead_or_yield();
      if (auto led = follow(rank)) return *led;
      if (deadline_.passed()) return too_late(rank);
    }
    return Status(ErrorCode::internal, "shrink: this rank is not of its own communicator");
  }

 private:
  /// One that comes late may find that those who waited for it have gone to the next.
  Result<Muster> lead_or_yield() {
    while (true) {
      auto led = lead();
      if (leader_ < 0) return led;
      if (auto followed = follow(std::exchange(leader_, -1))) return *followed;
      if (deadline_.passed()) return too_late(me_);
    }
  }

  Deadline half_of_the_time() const { return Deadline::after(deadline_.left() / 2); }
  std::string post_key(std::int32_t leader, std::int32_t from, std::uint32_t number) const {
    return fmt::format("{}/{}/{}/{}", line_.key("muster"), leader, from, number);
  }
  static std::string answer_key(const std::string& post) { return post + "/answer"; }
  static std::string withdrawal_key(const std::string& post) { return post + "/withdrawn"; }
  /// Is there while that rank leads.
  std::string leads_key(std::int32_t rank) const {
    return fmt::format("{}/leads/{}", line_.key("muster"), rank);
  }
  std::string describe(std::int32_t rank) const { return line_.root.describe(rank); }

  // ---- who is there

  bool process_has_ended(std::int32_t rank) const {
    const auto& peers = line_.root.peers;
    const transport::Peer& peer = peers[static_cast<std::size_t>(rank)];
    if (peer.host_id != peers[static_cast<std::size_t>(me_)].host_id) return false;
    return has_ended({peer.pid, peer.start_ticks, peer.pid_namespace}, ProcessIdentity::of_this_process());
  }

  Result<std::shared_ptr<rendezvous::Store>> open(std::int32_t rank, Deadline deadline) const {
    if (line_.one_process) return line_.refuge->store();
    const std::string& text = line_.refuges[static_cast<std::size_t>(rank)];
    if (text.empty()) return Status(ErrorCode::timeout, describe(rank) + " has no refuge");
    return rendezvous::open_refuge(text, deadline);
  }

  bool has_left(rendezvous::Store& its, std::int32_t rank) const {
    return its.get(line_.left_key(rank), Deadline::after(kLook)).ok();
  }

  bool leads(rendezvous::Store& its, std::int32_t rank) const {
    return its.get(leads_key(rank), Deadline::after(kLook)).ok();
  }

  /// Asks in its refuge; notes if it leads. Two may lead where one has come late: the later one leaves it to
  /// the one that others have gone to.
  bool is_gone(std::int32_t rank) {
    if (process_has_ended(rank)) return true;
    auto its = open(rank, Deadline::after(kProbe));
    if (!its.ok()) return its.status().code() == ErrorCode::peer_lost;
    if (has_left(**its, rank)) return true;
    if (rank > me_ && leads(**its, rank)) leader_ = rank;
    return false;
  }

  // ---- those who do not lead

  /// Nothing: it does not lead, and the next one may.
  std::optional<Result<Muster>> follow(std::int32_t leader) {
    const Deadline patience = half_of_the_time();
    if (process_has_ended(leader)) return std::nullopt;
    auto its = open(leader, patience);
    if (!its.ok() || has_left(**its, leader)) return std::nullopt;
    const std::string post = post_key(leader, me_, line_.posted[leader]++);
    const auto left_ms = std::chrono::duration_cast<milliseconds>(deadline_.left()).count();
    if (!(*its)->set(post, std::to_string(left_ms)).ok()) return std::nullopt;
    while (!deadline_.passed()) {
      const auto answer = (*its)->get(answer_key(post), earlier(deadline_, Deadline::after(kGlance)));
      if (answer.ok()) return read_answer(*answer, *its);
      const bool waits = answer.status().code() == ErrorCode::timeout;
      if (!waits || process_has_ended(leader) || has_left(**its, leader)) break;
      // One that leads will answer: it knows how much time this rank had.
      if (patience.passed() && !leads(**its, leader)) break;
    }
    (void)(*its)->set(withdrawal_key(post), "1");
    log::info("shrink: {} does not lead; the next one may", describe(leader));
    return std::nullopt;
  }

  Result<Muster> read_answer(const std::string& bytes, std::shared_ptr<rendezvous::Store> store) const {
    const auto fields = rendezvous::unpack(bytes);
    if (!fields.ok()) return fields.status();
    if (fields->size() < 2)
      return Status(ErrorCode::corrupt, "shrink: the answer of the leading rank is short");
    if ((*fields)[0] == "no") return Status(ErrorCode::timeout, (*fields)[1]);
    Muster found{{}, (*fields)[1], std::move(store)};
    for (std::size_t i = 2; i < fields->size(); ++i) {
      const std::string& text = (*fields)[i];
      std::int32_t rank = -1;
      std::from_chars(text.data(), text.data() + text.size(), rank);
      if (std::find(ranks_.begin(), ranks_.end(), rank) == ranks_.end()) {
        return Status(ErrorCode::corrupt,
                      fmt::format("shrink: the leading rank counts '{}' as one of us", text));
      }
      found.survivors.push_back(rank);
    }
    return found;
  }

  Status too_late(std::int32_t leader) const {
    return Status(ErrorCode::timeout,
                  fmt::format("shrink: {} lives but does not come, and the time is over: all survivors must "
                              "call it",
                              describe(leader)));
  }

  // ---- the one who leads

  Result<Muster> lead() {
    if (line_.refuge == nullptr) {
      return Status(ErrorCode::system,
                    "shrink: this rank would lead, but could serve no refuge (see its log)");
    }
    Deadline patience = half_of_the_time();
    rendezvous::Store& own = *line_.refuge->store();
    const Announcement announcement(*line_.refuge, leads_key(me_));
    for (bool first = true;; first = false) {
      patience = earlier(patience, take_posts(own, first));
      look_for_the_gone();
      if (leader_ >= 0) return Status(ErrorCode::timeout, "shrink: another leads");
      const std::vector<std::int32_t> missing = absent();
      if (missing.empty()) break;
      if (patience.passed()) {
        if (is_majority()) break;
        return refuse(own, missing);
      }
      std::this_thread::sleep_for(kPause);
    }
    return answer(own);
  }

  static bool has(rendezvous::Store& own, const std::string& key) {
    return own.get(key, Deadline::after(std::chrono::nanoseconds(0))).ok();
  }

  /// Returns until when those who have come must be answered: while half of their time is left, which making
  /// the communicator needs. A post that was there when this rank came may be old: half of its time may have
  /// passed.
  Deadline take_posts(rendezvous::Store& own, bool may_be_old) {
    Deadline answer_by = Deadline::never();
    for (const std::int32_t rank : ranks_) {
      if (rank == me_) continue;
      // Of several the last one counts: it has given up the others.
      for (std::uint32_t& next = line_.heard[rank]; has(own, post_key(me_, rank, next)); ++next) {
        posts_[rank] = post_key(me_, rank, next);
        gone_.erase(rank);
        answer_by = earlier(answer_by, Deadline::after(time_of(own, posts_[rank]) / (may_be_old ? 4 : 2)));
      }
      if (posts_.contains(rank) && has(own, withdrawal_key(posts_[rank]))) posts_.erase(rank);
    }
    return answer_by;
  }

  /// That its sender had.
  static milliseconds time_of(rendezvous::Store& own, const std::string& post) {
    const auto text = own.get(post, Deadline::after(std::chrono::nanoseconds(0)));
    std::int64_t left_ms = 0;
    if (text.ok()) std::from_chars(text->data(), text->data() + text->size(), left_ms);
    return milliseconds(std::clamp<std::int64_t>(left_ms, 0, milliseconds(std::chrono::hours(24)).count()));
  }

  void look_for_the_gone() {
    const bool probe = next_probe_.passed();
    if (probe) next_probe_ = Deadline::after(kProbeEvery);
    for (const std::int32_t rank : ranks_) {
      if (rank == me_ || gone_.contains(rank)) continue;
      const bool here = posts_.contains(rank);
      if (process_has_ended(rank) || (probe && !here && is_gone(rank))) {
        gone_.insert(rank);
        posts_.erase(rank);
      }
    }
  }

  std::vector<std::int32_t> absent() const {
    std::vector<std::int32_t> ranks;
    for (const std::int32_t rank : ranks_) {
      if (rank != me_ && !posts_.contains(rank) && !gone_.contains(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

  bool is_majority() const { return 2 * (posts_.size() + 1) > ranks_.size() - gone_.size(); }

  Result<Muster> answer(rendezvous::Store& own) {
    Muster found{
        {}, fmt::format("{}/{}/{}", line_.key("shrink"), me_, line_.rounds++), line_.refuge->store()};
    std::vector<std::string> fields = {"yes", found.group};
    for (const std::int32_t rank : ranks_) {
      if (rank != me_ && !posts_.contains(rank)) continue;
      found.survivors.push_back(rank);
      fields.push_back(std::to_string(rank));
    }
    FERRULE_RETURN_IF_ERROR(tell_all(own, rendezvous::pack(fields)));
    return found;
  }

  Status refuse(rendezvous::Store& own, const std::vector<std::int32_t>& missing) {
    std::string names;
    for (const std::int32_t rank : missing) names += (names.empty() ? "" : ", ") + describe(rank);
    const Status why(
        ErrorCode::timeout,
        fmt::format("shrink: waiting for {}: not known to be gone, and those who are here are {} of "
                    "{}, no majority. End those processes, or let them call shrink, and try again",
                    names, posts_.size() + 1, ranks_.size() - gone_.size()));
    FERRULE_RETURN_IF_ERROR(tell_all(own, rendezvous::pack({"no", why.text()})));
    return why;
  }

  Status tell_all(rendezvous::Store& own, const std::string& words) const {
    for (const auto& [rank, post] : posts_) FERRULE_RETURN_IF_ERROR(own.set(answer_key(post), words));
    return {};
  }

  Lineage& line_;
  std::vector<std::int32_t> ranks_;  // of the lineage's first communicator
  const std::int32_t me_;
  const Deadline deadline_;
  Deadline next_probe_ = Deadline::after(kProbeEvery);
  std::map<std::int32_t, std::string> posts_;  // by rank: the key of the last one
  std::set<std::int32_t> gone_;
  std::int32_t leader_ = -1;  // one above this rank that was found leading
};

}  // namespace

Result<Muster> muster(const Descent& descent, Deadline deadline) {
  const std::lock_guard lock(descent.lineage->one_at_a_time);
  return Mustering(descent, deadline).run();
}

}  // namespace ferrule::communicator
