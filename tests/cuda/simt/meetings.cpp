// Where threads meet: votes, shuffles and reductions of a warp, barriers of a block.
#include <string_view>

#include "simt/block.hpp"

namespace simt {
namespace {

constexpr const char* kMeetingNames[] = {"__syncwarp", "a shuffle", "a vote", "a reduction"};

const char* name_of(Meeting meeting) { return kMeetingNames[static_cast<int>(meeting)]; }

std::string mask_text(unsigned mask) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[(mask >> shift) & 15u];
  return text;
}

}  // namespace

void Block::check_lane(const Visit& visit, unsigned thread) {
  const std::string here = std::string(name_of(visit.meeting)) + " at " + visit.place.text();
  const Thread& other = states_[thread];
  if (other.state == State::left) {
    fail(here + ": the mask " + mask_text(visit.mask) + " names thread " + std::to_string(thread) +
         ", which has left the kernel");
  }
  if (other.state == State::barrier) fail(here + ": " + describe(thread) + ", and they wait for each other");
  if (other.state != State::meeting) return;
  const Visit& theirs = *other.visit;
  if (theirs.mask != visit.mask) {
    // A meeting without this lane may end, and the other lane come here afterwards.
    if (((theirs.mask >> (current_ % kLanes)) & 1u) == 0) return;
    fail(here + " with the mask " + mask_text(visit.mask) + ": thread " + std::to_string(thread) +
         " came with " + mask_text(theirs.mask) + " at " + theirs.place.text());
  }
  if (theirs.meeting != visit.meeting || theirs.kind != visit.kind) {
    fail(here + ": thread " + std::to_string(thread) + " came to " + name_of(theirs.meeting) + " at " +
         theirs.place.text());
  }
}

bool Block::all_have_come(const Visit& visit, unsigned first) {
  bool all = true;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (((visit.mask >> lane) & 1u) == 0) continue;
    if (first + lane >= threads_) {
      fail(std::string(name_of(visit.meeting)) + " at " + visit.place.text() + ": the mask " +
           mask_text(visit.mask) + " names lane " + std::to_string(lane) + ", which does not exist");
    }
    check_lane(visit, first + lane);
    const Thread& other = states_[first + lane];
    all = all && other.state == State::meeting && other.visit->mask == visit.mask;
  }
  return all;
}

namespace {

std::uint64_t combine(unsigned kind, std::uint64_t a, std::uint64_t b) {
  switch (kind) {
    case 0:
      return static_cast<std::uint32_t>(a + b);
    case 1:
      return a < b ? a : b;
    case 2:
      return a < b ? b : a;
    case 3:
      return a & b;
    case 4:
      return a | b;
    default:
      return a ^ b;
  }
}

}  // namespace

// Results are made here, all at once: a lane that runs ahead cannot change what the others get.
void Block::complete_meeting(const Visit& visit, unsigned first) {
  const unsigned mask = visit.mask;
  std::uint64_t votes = 0;
  std::uint64_t reduced = 0;
  bool is_first = true;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (((mask >> lane) & 1u) == 0) continue;
    const Visit& theirs = *states_[first + lane].visit;
    if (theirs.value != 0) votes |= std::uint64_t{1} << lane;
    reduced = is_first ? theirs.value : combine(theirs.kind, reduced, theirs.value);
    is_first = false;
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (((mask >> lane) & 1u) == 0) continue;
    Visit& theirs = *states_[first + lane].visit;
    if (theirs.meeting == Meeting::vote) theirs.result = votes;
    if (theirs.meeting == Meeting::reduce) theirs.result = reduced;
    if (theirs.meeting != Meeting::shuffle) continue;
    if (((mask >> theirs.source) & 1u) == 0) {
      fail("a shuffle at " + theirs.place.text() + ": lane " + std::to_string(lane) + " reads lane " +
           std::to_string(theirs.source) + ", which is not in the mask " + mask_text(mask));
    }
    theirs.result = states_[first + theirs.source].visit->value;
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (((mask >> lane) & 1u) != 0) wake(first + lane);
  }
}

void Block::meet(Visit& visit) {
  const unsigned first = current_ / kLanes * kLanes;
  if (((visit.mask >> (current_ % kLanes)) & 1u) == 0) {
    fail(std::string(name_of(visit.meeting)) + " at " + visit.place.text() + ": the mask " +
         mask_text(visit.mask) + " does not name the lane that uses it, " +
         std::to_string(current_ % kLanes));
  }
  states_[current_].state = State::meeting;
  states_[current_].visit = &visit;
  if (all_have_come(visit, first)) complete_meeting(visit, first);
  wait();
}

unsigned Block::barrier(Place place, bool vote) {
  Thread& self = states_[current_];
  self.state = State::barrier;
  self.place = place;
  self.vote = vote;
  ++arrived_;
  check_barrier();
  wait();
  return votes_;
}

// All that are not at a barrier yet may still come; whoever has left cannot.
void Block::check_barrier() {
  if (arrived_ == 0 || arrived_ + left_ < threads_) return;
  unsigned votes = 0;
  const Place* place = nullptr;
  for (unsigned i = 0; i < threads_; ++i) {
    const Thread& thread = states_[i];
    if (thread.state == State::barrier) place = &thread.place;
  }
  for (unsigned i = 0; i < threads_; ++i) {
    const Thread& thread = states_[i];
    if (thread.state == State::left) {
      fail("a divergent barrier: threads wait at " + place->text() + ", and thread " + std::to_string(i) +
           " has left the kernel");
    }
    if (thread.place.line != place->line || std::string_view(thread.place.file) != place->file) {
      fail("a divergent barrier: some threads wait at " + place->text() + ", thread " + std::to_string(i) +
           " at " + thread.place.text());
    }
    votes += thread.vote ? 1 : 0;
  }
  arrived_ = 0;
  votes_ = votes;
  for (unsigned i = 0; i < threads_; ++i) wake(i);
}

void Block::leave() {
  states_[current_].state = State::left;
  ++left_;
  const unsigned first = current_ / kLanes * kLanes;
  for (unsigned lane = 0; lane < kLanes && first + lane < threads_; ++lane) {
    const Thread& other = states_[first + lane];
    if (other.state != State::meeting || ((other.visit->mask >> (current_ % kLanes)) & 1u) == 0) continue;
    check_lane(*other.visit, current_);
  }
  check_barrier();
}

}  // namespace simt
