// One collective under way.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/deadline.hpp"
#include "communicator/agreement.hpp"
#include "executor/run.hpp"
#include "residual/residual.hpp"

namespace ferrule::communicator {

/// A send or a receive (point_to_point.hpp).
struct Transfer {
  bool sends = false;
  std::int32_t peer = 0;  ///< receives: kAnyRank takes from anybody
  std::uint32_t tag = 0;
  void* data = nullptr;  ///< of a send: read only
  std::size_t bytes = 0;
  std::int32_t source = -1;  ///< receives, when done: who sent it
};

/// Filled in by the caller's thread when it is queued, then touched by the transport's owner only, until
/// `done`.
struct Work {
  enum class Stage : std::uint8_t { queued, agreeing, weighing, running };

  /// Not null: a transfer; what is about collectives stays unused.
  std::unique_ptr<Transfer> transfer;
  executor::Job job;
  Intent intent;
  residual::Residual* residual = nullptr;
  residual::Update update;
  std::optional<double> weight;  ///< this rank's, in a weighted mean
  std::chrono::nanoseconds timeout{0};
  bool background = false;

  Stage stage = Stage::queued;
  std::optional<Deadline> deadline;      ///< `timeout` after `moved`: waiting behind others does not count
  Deadline::Clock::time_point moved{};   ///< when something last happened in it
  Deadline::Clock::time_point probed{};  ///< up to when it has been asked who is missing
  bool warned = false;                   ///< that it stalls; once is enough
  bool checking = false;                 ///< the result is there, and is compared with the other ranks'
  bool connection_lost = false;          ///< ending it took a connection by force
  std::uint64_t bytes_before = 0;

  // Of a collective on a device: the caller's stream, and once it is done the end of the result in ours.
  void* stream = nullptr;
  std::shared_ptr<executor::Mark> result;

  /// Once done well, by any thread that learns of it: what comes into the caller's stream from now on comes
  /// after the result. The host does not wait. Nothing on the host.
  Status hold_stream() const { return result == nullptr ? Status() : result->hold(stream); }

  // Valid once `done` is true (release/acquire).
  std::uint64_t bytes_sent = 0;
  Status status;
  std::atomic<bool> done{false};
};

}  // namespace ferrule::communicator
