// One collective under way.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/deadline.hpp"
#include "communicator/agreement.hpp"
#include "executor/run.hpp"
#include "residual/residual.hpp"

namespace ferrule::communicator {

/// Filled in by the caller's thread when it is queued, then touched by the transport's owner only, until
/// `done`.
struct Work {
  enum class Stage : std::uint8_t { queued, agreeing, running };

  executor::Job job;
  Intent intent;
  residual::Residual* residual = nullptr;
  residual::Update update;
  std::chrono::nanoseconds timeout{0};
  bool background = false;

  Stage stage = Stage::queued;
  std::optional<Deadline> deadline;  ///< set when it begins: waiting behind other collectives does not count
  std::optional<Deadline> stall;     ///< when to warn that nothing comes; none: not (again)
  bool connection_lost = false;      ///< ending it took a connection by force
  std::uint64_t bytes_before = 0;

  // Valid once `done` is true (release/acquire).
  std::uint64_t bytes_sent = 0;
  Status status;
  std::atomic<bool> done{false};
};

}  // namespace ferrule::communicator
