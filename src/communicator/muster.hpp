// Survivors agree on who they are, without the communicator that has failed them.
//
// The lowest survivor leads: every other one leaves a post in its refuge (rendezvous/refuge.hpp) and waits
// for the answer. The leader waits until each rank has left a post or is known to be gone, and answers all
// with one list. Should it die, its refuge dies with it, and the next one leads. A rank is gone if its
// process has ended, or if it holds no communicator of this lineage any more. One that is neither here nor
// gone is waited for during half of the time of the leader, and of those who have come, whatever is over
// first; then it is left out, provided that more than half of those that are not gone are here: so two parts
// of a job that cannot reach each other never both go on. One that ought to lead and does not come is waited
// for during half of the time, too; then its posts are withdrawn and the next one leads. If it comes after
// all, it finds that another leads, and follows.
//
// What this is not: proof against a death between the answer and its use. Then making the new communicator
// fails for some or all, within the deadline, and they muster again: posts and answers are numbered, so an
// earlier try cannot be taken for a later one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "communicator/communicator.hpp"
#include "ferrule/status.hpp"
#include "rendezvous/store.hpp"

namespace ferrule::communicator {

/// Who goes on, and where they meet.
struct Muster {
  std::vector<std::int32_t> survivors;  ///< ranks of the lineage's first communicator, ascending
  std::string group;                    ///< new, the same for all of them
  std::shared_ptr<rendezvous::Store> store;
};

/// All survivors must call it. Cost: one message each way a rank, and a connection to each rank that does not
/// come at once.
Result<Muster> muster(const Descent& descent, Deadline deadline);

}  // namespace ferrule::communicator
