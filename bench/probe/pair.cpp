#include "bench/probe/pair.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

namespace ferrule::probe {
namespace {

using Clock = Deadline::Clock;

constexpr int kLeastPings = 10;
constexpr int kMostPings = 1000;
constexpr double kPingSeconds = 30e-3;

// A train tells the bandwidth if it takes this long, and this many round trips.
constexpr double kClearSeconds = 4e-3;
constexpr double kClearRoundTrips = 3;
constexpr std::size_t kFirstBytes = 256 << 10;
constexpr std::size_t kGrowth = 4;
// Those that take less are repeated: others on the machine only ever make them slower.
constexpr double kShortSeconds = 0.3;
constexpr int kRepetitions = 3;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The shortest round trip. A word of 0 ends it.
Result<double> ping(Wire& wire, std::int32_t peer) {
  double least = std::numeric_limits<double>::infinity();
  const auto start = Clock::now();
  for (int i = 0; i < kMostPings && (i < kLeastPings || seconds_since(start) < kPingSeconds); ++i) {
    const auto sent = Clock::now();
    FERRULE_RETURN_IF_ERROR(wire.send(peer, 1));
    FERRULE_RETURN_IF_ERROR(wire.receive(peer).status());
    least = std::min(least, seconds_since(sent));
  }
  FERRULE_RETURN_IF_ERROR(wire.send(peer, 0));
  return least;
}

Status answer_pings(Wire& wire, std::int32_t peer) {
  while (true) {
    auto word = wire.receive(peer);
    FERRULE_RETURN_IF_ERROR(word.status());
    if (*word == 0) return {};
    FERRULE_RETURN_IF_ERROR(wire.send(peer, *word));
  }
}

/// The fastest train of some. Each is announced by its number of messages; 0 ends them.
Result<double> time_trains(Wire& wire, std::int32_t peer, std::uint32_t messages) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepetitions && (i == 0 || least < kShortSeconds); ++i) {
    FERRULE_RETURN_IF_ERROR(wire.send(peer, messages));
    auto seconds = wire.send_train(peer, messages);
    FERRULE_RETURN_IF_ERROR(seconds.status());
    least = std::min(least, *seconds);
  }
  return least;
}

/// Longer and longer trains, until one tells. Bytes a second.
Result<double> send_trains(Wire& wire, std::int32_t peer, double round_trip_s) {
  for (std::size_t bytes = kFirstBytes;; bytes *= kGrowth) {
    const auto messages = static_cast<std::uint32_t>(
        std::clamp<std::size_t>(bytes / wire.message_bytes(), 1, wire.most_messages()));
    auto seconds = time_trains(wire, peer, messages);
    FERRULE_RETURN_IF_ERROR(seconds.status());
    const bool is_clear = *seconds > kClearSeconds && *seconds > kClearRoundTrips * round_trip_s;
    if (!is_clear && messages < wire.most_messages()) continue;
    FERRULE_RETURN_IF_ERROR(wire.send(peer, 0));
    // The first message's way and the answer's are no part of the wire's time. On a busy machine the round
    // trip may be far too long: at most half is taken off, so that bandwidth is rather too low than far too
    // high.
    const double wire_s = std::max(*seconds - round_trip_s, *seconds / 2);
    return static_cast<double>(messages * wire.message_bytes()) / wire_s;
  }
}

Status receive_trains(Wire& wire, std::int32_t peer) {
  while (true) {
    auto messages = wire.receive(peer);
    FERRULE_RETURN_IF_ERROR(messages.status());
    if (*messages == 0) return {};
    if (*messages > wire.most_messages()) {
      return Status(ErrorCode::corrupt, fmt::format("rank {} announced {} messages, at most {} are possible",
                                                    peer, *messages, wire.most_messages()));
    }
    FERRULE_RETURN_IF_ERROR(wire.receive_train(peer, static_cast<std::uint32_t>(*messages)));
  }
}

}  // namespace

Result<PairFigures> measure_pair(Wire& wire, std::int32_t rank, std::int32_t peer) {
  const bool leads = rank < peer;
  PairFigures figures;
  // Each in turn: to ping and to send trains, or to answer.
  for (const bool mine : {leads, !leads}) {
    if (!mine) {
      FERRULE_RETURN_IF_ERROR(answer_pings(wire, peer));
      FERRULE_RETURN_IF_ERROR(receive_trains(wire, peer));
      continue;
    }
    auto round_trip_s = ping(wire, peer);
    FERRULE_RETURN_IF_ERROR(round_trip_s.status());
    auto bytes_per_s = send_trains(wire, peer, *round_trip_s);
    FERRULE_RETURN_IF_ERROR(bytes_per_s.status());
    figures = {*round_trip_s / 2, *bytes_per_s};
  }
  return figures;
}

}  // namespace ferrule::probe
