// A record of where the time of collectives goes, for Perfetto and chrome://tracing (the Trace Event Format
// of Chromium). Off unless FERRULE_TRACE names a file.
//
// Each rank keeps its events in memory and adds them to the file when its communicator ends. Ranks of one
// host share the file (it is locked while one writes, and valid JSON whenever it is not); `%r` in the name is
// the rank, `%h` the host, for ranks that do not share a file system. Clocks are the hosts' own
// (CLOCK_REALTIME).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "ferrule/status.hpp"

namespace ferrule {

class Trace {
 public:
  enum class Kind : std::uint8_t {
    collective,  ///< all of it, from when it begins to be driven
    encode,
    decode,
    wait,  ///< nothing to do but wait for the wire
    send,  ///< from when a message is handed to the transport until its memory is free again
  };
  using Clock = std::chrono::steady_clock;

  struct Event {
    Kind kind = Kind::encode;
    std::int32_t peer = -1;  ///< send only
    std::uint32_t sequence = 0;
    std::uint32_t slice = 0;
    std::uint32_t chunk = 0;
    std::uint64_t bytes = 0;
    Clock::time_point begin;
    Clock::time_point end;
  };

  /// `file` may be empty: nothing is recorded.
  Trace(std::string file, std::int32_t rank, std::uint64_t communicator);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  /// Writes what is left; an error is logged.
  ~Trace();

  bool on() const { return !file_.empty(); }
  /// Events beyond a limit (about 100 MiB) are counted and dropped.
  void add(const Event& event);
  /// Forgets what was not written.
  void clear() { events_.clear(); }
  /// Adds the events to the file and forgets them.
  Status write();

 private:
  std::string to_json() const;

  const std::string file_;
  const std::int32_t rank_;
  const std::uint64_t communicator_;
  const std::int64_t realtime_offset_ns_;  ///< CLOCK_REALTIME minus Clock
  std::vector<Event> events_;
  std::uint64_t dropped_ = 0;
};

}  // namespace ferrule
