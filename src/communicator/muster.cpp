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
#include "communicator/lineage.hpp"
#include "rendezvous/fields.hpp"
#include "rendezvous/refuge.hpp"
#include "base/process.hpp"

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

class Mustering {
 public:
  Mustering(const Descent& descent, Deadline deadline)
      : line_(*descent.lineage), ranks_(descent.root_ranks), me_(line_.root.rank), deadline_(deadline) {}

  Result<Muster> run() {
    for (const std::int32_t rank : ranks_) {
      if (rank == me_) return lead();
      if (auto led = follow(rank)) return *led;
      if (deadline_.passed()) return too_late(rank);
    }
    return Status(ErrorCode::internal, "shrink: this rank is not of its own communicator");
  }

 private:
  Deadline half_of_the_time() const { return Deadline::after(deadline_.left() / 2); }
  std::string post_key(std::int32_t leader, std::int32_t from, std::uint32_t number) const {
    return fmt::format("{}/{}/{}/{}", line_.key("muster"), leader, from, number);
  }
  static std::string answer_key(const std::string& post) { return post + "/answer"; }
  std::string describe(std::int32_t rank) const { return line_.root.describe(rank); }

  // ---- who is there

  bool process_has_ended(std::int32_t rank) const {
    const auto& peers = line_.root.peers;
    const transport::Peer& peer = peers[static_cast<std::size_t>(rank)];
    if (peer.host_id != peers[static_cast<std::size_t>(me_)].host_id) return false;
    return has_ended({peer.pid, peer.start_ticks, peer.pid_namespace},
                                ProcessIdentity::of_this_process());
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

  bool is_gone(std::int32_t rank) const {
    if (process_has_ended(rank)) return true;
    auto its = open(rank, Deadline::after(kProbe));
    if (!its.ok()) return its.status().code() == ErrorCode::peer_lost;
    return has_left(**its, rank);
  }

  // ---- those who do not lead

  /// Nothing: it does not lead, and the next one may.
  std::optional<Result<Muster>> follow(std::int32_t leader) {
    const Deadline patience = half_of_the_time();
    if (process_has_ended(leader)) return std::nullopt;
    auto its = open(leader, patience);
    if (!its.ok() || has_left(**its, leader)) return std::nullopt;
    const std::string post = post_key(leader, me_, line_.posted[leader]++);
    if (!(*its)->set(post, "here").ok()) return std::nullopt;
    while (!patience.passed()) {
      const auto answer = (*its)->get(answer_key(post), earlier(patience, Deadline::after(kGlance)));
      if (answer.ok()) return read_answer(*answer, *its);
      const bool waits = answer.status().code() == ErrorCode::timeout;
      if (!waits || process_has_ended(leader) || has_left(**its, leader)) break;
    }
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
    const Deadline patience = half_of_the_time();
    rendezvous::Store& own = *line_.refuge->store();
    while (true) {
      take_posts(own);
      look_for_the_gone();
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

  void take_posts(rendezvous::Store& own) {
    for (const std::int32_t rank : ranks_) {
      if (rank == me_) continue;
      // Of several the last one counts: it has given up the others.
      for (std::uint32_t& next = line_.heard[rank];
           own.get(post_key(me_, rank, next), Deadline::after(std::chrono::nanoseconds(0))).ok(); ++next) {
        posts_[rank] = post_key(me_, rank, next);
        gone_.erase(rank);
      }
    }
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
};

}  // namespace

Result<Muster> muster(const Descent& descent, Deadline deadline) {
  const std::lock_guard lock(descent.lineage->one_at_a_time);
  return Mustering(descent, deadline).run();
}

}  // namespace ferrule::communicator
