// Every rank's value to every rank, through rank 0: it gets them one by one and publishes them as one, so
// that a group of n costs n gets of rank 0 and one of each other rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "ferrule/status.hpp"
#include "rendezvous/store.hpp"

namespace ferrule::rendezvous {

struct Gathering {
  Store& store;
  std::string prefix;  ///< of its keys; new for each gathering
  std::int32_t rank = 0;
  std::int32_t size = 1;
  Deadline deadline = Deadline::never();
  /// Asked by rank 0 for each value. Its error ends the gathering on every rank.
  std::function<Status(std::int32_t rank, const std::string& value)> check;
  /// Asked again and again by whoever waits: an error if a rank has died meanwhile. It ends the gathering.
  std::function<Status()> lost = {};
};

/// result[r] is what rank r gave. Ranks that are missing at the deadline: `timeout`, naming them.
Result<std::vector<std::string>> gather(const Gathering& gathering, const std::string& mine);

/// Ends a gathering with this error for all ranks, at once.
void spoil(const Gathering& gathering, const Status& why);

/// Has rank 0 published all values, or an error?
bool has_ended(const Gathering& gathering);

/// The key of a rank's value.
std::string gather_key(const Gathering& gathering, std::int32_t rank);

/// "rank 2", "ranks 2 and 3", "ranks 1, 2 and 3".
std::string list_ranks(const std::vector<std::int32_t>& ranks);

}  // namespace ferrule::rendezvous
