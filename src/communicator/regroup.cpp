#include "communicator/regroup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "communicator/lineage.hpp"
#include "communicator/muster.hpp"

namespace ferrule::communicator {
namespace {

struct Choice {
  std::int64_t color = 0;
  std::int64_t key = 0;
};

/// What each rank chose, by an exact sum in which each has a place of its own.
Result<std::vector<Choice>> gather_choices(Communicator& parent, Choice mine) {
  std::vector<Choice> all(static_cast<std::size_t>(parent.size()));
  all[static_cast<std::size_t>(parent.rank())] = mine;
  static_assert(sizeof(Choice) == 2 * sizeof(std::int64_t));
  Call call;
  call.send = call.recv = all.data();
  call.count = 2 * all.size();
  call.dtype = DType::i64;
  call.codec = "none";
  auto work = parent.start(call, false);
  FERRULE_RETURN_IF_ERROR(work.status());
  FERRULE_RETURN_IF_ERROR(parent.wait(**work, Deadline::never()));
  return all;
}

std::vector<std::int32_t> members_of(std::int64_t color, const std::vector<Choice>& all) {
  std::vector<std::int32_t> members;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].color == color) members.push_back(static_cast<std::int32_t>(rank));
  }
  std::stable_sort(members.begin(), members.end(), [&](std::int32_t a, std::int32_t b) {
    return all[static_cast<std::size_t>(a)].key < all[static_cast<std::size_t>(b)].key;
  });
  return members;
}

std::int32_t index_of(std::int32_t rank, const std::vector<std::int32_t>& ranks) {
  return static_cast<std::int32_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

/// The store of the first member that serves one: the same choice on all of them.
Result<std::shared_ptr<rendezvous::Store>> store_of(const Lineage& line,
                                                    const std::vector<std::int32_t>& members,
                                                    Deadline deadline) {
  if (line.one_process || members.size() == 1) return rendezvous::Refuge::of_threads()->store();
  for (const std::int32_t member : members) {
    const std::string& text = line.refuges[static_cast<std::size_t>(member)];
    if (text.empty()) continue;
    if (member == line.root.rank) return line.refuge->store();
    auto store = rendezvous::open_refuge(text, deadline);
    if (store.ok()) return store;
    return Status(store.status().code(), fmt::format("split: {} could not be reached: {}",
                                                     line.root.describe(member), store.status().text()));
  }
  return Status(ErrorCode::system, "split: no member could serve a refuge (see the log)");
}

Reunion reunion_of(const Lineage& line, Deadline deadline) {
  const transport::Peer& self = line.root.peers[static_cast<std::size_t>(line.root.rank)];
  Reunion reunion;
  reunion.interface = {self.address, line.root.interface};
  reunion.config = line.config;
  reunion.one_process = line.one_process;
  reunion.deadline = deadline;
  return reunion;
}

/// Once a rank has a communicator, all others of its group have read what they met through.
void tidy(const Lineage& line, const rendezvous::Party& met) {
  if (met.size == 1) rendezvous::Refuge::of_threads()->forget(met.group + "/");
  if (line.refuge != nullptr) line.refuge->forget(met.group + "/");
}

void tell_of_shrink(const Lineage& line, const Descent& from, const std::vector<std::int32_t>& survivors,
                    bool reset_residuals) {
  std::string without;
  for (const std::int32_t rank : from.root_ranks) {
    if (index_of(rank, survivors) < static_cast<std::int32_t>(survivors.size())) continue;
    without += (without.empty() ? "" : ", ") + line.root.describe(rank);
  }
  const std::string text = fmt::format("shrink: {} of {} ranks go on{}; residuals {}", survivors.size(),
                                       from.root_ranks.size(), without.empty() ? "" : ", without " + without,
                                       reset_residuals ? "start at zero" : "are kept");
  if (survivors.front() == line.root.rank) {
    log::warn("{}", text);
  } else {
    log::info("{}", text);
  }
}

}  // namespace

MadeCommunicator split(Communicator& parent, int color, int key) {
  auto all = gather_choices(parent, {color, key});
  FERRULE_RETURN_IF_ERROR(all.status());
  const std::uint32_t number = parent.count_split();
  if (color < 0) return std::unique_ptr<Communicator>();
  const Deadline deadline = Deadline::after(parent.timeout());
  const Descent& descent = parent.descent();
  std::vector<std::int32_t> members;
  for (const std::int32_t rank : members_of(color, *all)) {
    members.push_back(descent.root_ranks[static_cast<std::size_t>(rank)]);
  }
  const Lineage& line = *descent.lineage;
  auto store = store_of(line, members, deadline);
  FERRULE_RETURN_IF_ERROR(store.status());
  Reunion reunion = reunion_of(line, deadline);
  reunion.store = *store;
  reunion.party = {fmt::format("split/{:x}/{}/{}", parent.membership().communicator, number, color),
                   index_of(line.root.rank, members), static_cast<std::int32_t>(members.size())};
  auto made = connect_again(reunion);
  if (made.ok()) tidy(line, reunion.party);
  return made;
}

MadeCommunicator shrink(Communicator& broken, bool reset_residuals) {
  if (!broken.is_broken()) broken.abort();
  const Deadline deadline = Deadline::after(broken.timeout());
  const Descent& from = broken.descent();
  auto found = muster(from, deadline);
  FERRULE_RETURN_IF_ERROR(found.status());
  const std::vector<std::int32_t>& survivors = found->survivors;
  const Lineage& line = *from.lineage;
  Reunion reunion = reunion_of(line, deadline);
  reunion.store = found->store;
  reunion.party = {found->group, index_of(line.root.rank, survivors),
                   static_cast<std::int32_t>(survivors.size())};
  reunion.descent = {from.lineage, survivors, from.generation + 1,
                     reset_residuals ? from.generation + 1 : from.reset_before};
  auto made = connect_again(reunion);
  FERRULE_RETURN_IF_ERROR(made.status());
  tidy(line, reunion.party);
  tell_of_shrink(line, from, survivors, reset_residuals);
  return made;
}

}  // namespace ferrule::communicator
