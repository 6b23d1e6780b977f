// One slice in flight: how far it is, and its requests. Private to the executor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "executor/run.hpp"

namespace ferrule::executor {

struct Run::Slice {
  std::uint32_t number = 0;
  std::size_t next = 0;   ///< instruction to execute next
  std::size_t place = 0;  ///< which part of the scratch memory is its own
  std::byte* scratch = nullptr;
  std::vector<std::uint32_t> uses_left;  ///< by slot; a received view goes back when it reaches 0
  // By number of the send or receive. `*_posted` is false where the range is empty or its turn has not come.
  std::vector<std::unique_ptr<transport::Send>> sends;
  std::vector<std::unique_ptr<transport::Recv>> recvs;
  std::vector<std::uint32_t> send_slots;
  std::vector<char> send_posted;
  std::vector<char> recv_posted;
  std::vector<Deadline::Clock::time_point> send_begins;  ///< for the trace
  std::uint32_t sends_under_way = 0;

  // Of the encode, decode or fold that is at work; see is_ready().
  std::vector<codec::Term> terms;
  std::vector<std::vector<std::byte>> aligned;  ///< copies of misaligned terms; kept for their memory
  std::size_t aligned_used = 0;
  /// By receive: a host copy of what a peer sent from a device's memory, where this rank's tensor is on the
  /// host.
  std::vector<std::vector<std::byte>> fetched;

  // Where the tensor is on a device.
  std::vector<const std::byte*> brought;  ///< by receive: where the device has its bytes; null: not yet
  std::vector<std::optional<Published>> published;  ///< by slot
  std::vector<std::uint32_t> deferred;              ///< sends whose bytes have not left the device yet
  Deadline::Clock::time_point begin;
  Deadline::Clock::time_point end;
};

inline bool Run::is_fetched(const Slice& slice, std::uint32_t receive) {
  return receive < slice.fetched.size() && !slice.fetched[receive].empty();
}

/// Scratch slots begin at multiples of this.
inline std::size_t align_up(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

inline std::uint64_t ns_between(Deadline::Clock::time_point begin, Deadline::Clock::time_point end) {
  return static_cast<std::uint64_t>((end - begin) / std::chrono::nanoseconds(1));
}

}  // namespace ferrule::executor
