#include "bench/sim/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>
#include <vector>

namespace ferrule::sim {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Arrivals come before wakes of the same time, and in an order that representatives share with the ranks
// they stand for: by what the receiver calls the message, not by who sent it.
struct Event {
  double time_ns;
  std::uint32_t receive;  // kNoMessage: wake
  std::uint32_t slice;
  std::uint32_t walker;
  std::uint32_t in_port;
  double transfer_ns;
  double bytes;
};

struct Later {
  bool operator()(const Event& a, const Event& b) const {
    if (a.time_ns != b.time_ns) return a.time_ns > b.time_ns;
    if (a.receive != b.receive) return a.receive > b.receive;
    if (a.slice != b.slice) return a.slice > b.slice;
    return a.walker > b.walker;
  }
};

struct Slice {
  std::uint32_t number = 0;
  std::uint32_t next = 0;  // action
  std::uint32_t needs_met = 0;
  double sends_left_ns = 0;
  double wakes_ns = 0;  // the latest wake asked for, so that none is asked for twice
};

struct State {
  std::vector<Slice> active;  // oldest first
  std::uint32_t next_slice = 0;
  std::size_t cursor = 0;  // slice that is walked
  bool moved = false;
  bool computing = false;
  double look_ns = 0;  // when the walker last looked for messages
  double busy_ns = 0;
  double sent_bytes = 0;
  double done_ns = kNever;
  std::vector<double> ready_ns;  // by (slice % window, receive)
};

class Engine {
 public:
  Engine(const Network& network, const Cut& cut, const Pace& pace)
      : network_(network),
        cut_(cut),
        pace_(pace),
        ports_(network.ports),
        paths_(network.paths),
        in_flight_(std::max(1U, std::min(pace.slices_in_flight, pace.slices))),
        window_(std::max(1U, std::min(2 * in_flight_, pace.slices))),
        states_(network.walkers.size()) {
    outcome_.level_bytes.resize(network.levels);
  }

  Result<Outcome> run() {
    for (std::uint32_t i = 0; i < states_.size(); ++i) start(i);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.receive == kNoMessage) {
        wake(event);
      } else if (!arrive(event)) {
        return Status(ErrorCode::internal, fmt::format("rank {} got slice {} too far ahead",
                                                       network_.walkers[event.walker].rank, event.slice));
      }
    }
    return finish();
  }

 private:
  const Program& program(std::uint32_t walker) const { return network_.walkers[walker].program; }

  double& ready(std::uint32_t walker, std::uint32_t slice, std::uint32_t receive) {
    return states_[walker].ready_ns[slice % window_ * program(walker).receives.size() + receive];
  }

  void start(std::uint32_t walker) {
    State& state = states_[walker];
    state.ready_ns.assign(window_ * program(walker).receives.size(), kNever);
    while (state.next_slice < std::min(in_flight_, pace_.slices)) activate(state);
    ask_wake(walker, network_.walkers[walker].start_ns);
  }

  static void activate(State& state) { state.active.push_back({.number = state.next_slice++}); }

  void ask_wake(std::uint32_t walker, double time_ns) {
    events_.push({time_ns, kNoMessage, 0, walker, 0, 0, 0});
  }

  // False where the message is of a slice that shares its place with one still under way: no schedule of an
  // all-reduce lets a rank run so far ahead.
  bool arrive(const Event& event) {
    State& state = states_[event.walker];
    const std::uint32_t oldest = state.active.empty() ? state.next_slice : state.active.front().number;
    if (event.slice >= oldest + window_) return false;
    const double ready_ns = receive(ports_[event.in_port], {event.time_ns, event.transfer_ns}, event.bytes);
    ready(event.walker, event.slice, event.receive) = ready_ns;
    if (!state.computing && waits_for(event)) ask_wake(event.walker, ready_ns);
    return true;
  }

  bool waits_for(const Event& event) const {
    for (const Slice& slice : states_[event.walker].active) {
      if (slice.number != event.slice) continue;
      const Program& steps = program(event.walker);
      if (slice.next == steps.actions.size()) return false;
      const Action& action = steps.actions[slice.next];
      return slice.needs_met < action.need_count &&
             steps.needs[action.first_need + slice.needs_met] == event.receive;
    }
    return false;
  }

  void wake(const Event& event) {
    State& state = states_[event.walker];
    const bool resumes = state.computing && event.slice == 1;
    if (state.computing && !resumes) return;
    if (!resumes) {
      state.cursor = 0;
      state.moved = false;
      state.look_ns = event.time_ns;
    }
    state.computing = false;
    walk(event.walker, event.time_ns);
  }

  // Passes over the slices in flight until nothing more can be done now. A computation ends the call; the
  // walk goes on where it was when that is over.
  void walk(std::uint32_t walker, double now_ns) {
    State& state = states_[walker];
    while (true) {
      while (state.cursor < state.active.size()) {
        if (walk_slice(walker, state.active[state.cursor], now_ns)) return;
        if (!retire(walker, now_ns)) ++state.cursor;
      }
      if (!state.moved) break;
      state.cursor = 0;
      state.moved = false;
      state.look_ns = now_ns;
    }
    if (state.active.empty()) {
      state.done_ns = std::min(state.done_ns, now_ns);
    } else {
      ask_known_wakes(walker, now_ns);
    }
  }

  /// True: the walker computes now.
  bool walk_slice(std::uint32_t walker, Slice& slice, double now_ns) {
    State& state = states_[walker];
    const Program& steps = program(walker);
    while (slice.next < steps.actions.size()) {
      const Action& action = steps.actions[slice.next];
      const std::size_t elements = cut_.elements(action.chunk, slice.number);
      if (elements != 0 && !has_all(walker, slice, action)) return false;
      ++slice.next;
      slice.needs_met = 0;
      if (elements == 0) continue;
      state.moved = true;
      const bool sends = action.send != kNoMessage;
      if (sends)
        post(walker, slice, action, {now_ns, cut_.wire_bytes(elements, action.level) + pace_.header_bytes});
      const double cost_ns = sends ? pace_.message_cost_ns : cut_.raw_bytes(elements) * action.ns_per_byte;
      if (cost_ns > 0) return compute(walker, now_ns, cost_ns);
    }
    return false;
  }

  bool compute(std::uint32_t walker, double now_ns, double cost_ns) {
    State& state = states_[walker];
    state.computing = true;
    state.busy_ns += cost_ns;
    events_.push({now_ns + cost_ns, kNoMessage, 1, walker, 0, 0, 0});
    return true;
  }

  bool has_all(std::uint32_t walker, Slice& slice, const Action& action) {
    const Program& steps = program(walker);
    for (; slice.needs_met < action.need_count; ++slice.needs_met) {
      const std::uint32_t need = steps.needs[action.first_need + slice.needs_met];
      if (ready(walker, slice.number, need) > states_[walker].look_ns) return false;
    }
    return true;
  }

  struct Posted {
    double now_ns;
    double bytes;
  };

  void post(std::uint32_t walker, Slice& slice, const Action& action, const Posted& posted) {
    const Walker& sender = network_.walkers[walker];
    const Wire& wire = sender.wires[action.send];
    const double left_ns = leave(ports_[wire.out_port], posted.now_ns, posted.bytes);
    const double transfer_ns = posted.bytes * ports_[wire.out_port].ns_per_byte;
    const Flight flight = cross(paths_[wire.path], left_ns, transfer_ns, posted.bytes);
    slice.sends_left_ns = std::max(slice.sends_left_ns, left_ns);
    events_.push({flight.arrives_ns, wire.receive, slice.number, wire.walker, wire.in_port,
                  flight.transfer_ns, posted.bytes});
    outcome_.messages += 1;
    outcome_.level_bytes[network_.path_levels[wire.path]] += posted.bytes * sender.ranks;
    states_[walker].sent_bytes += posted.bytes;
  }

  /// Replaces the slice under the cursor if it has ended.
  bool retire(std::uint32_t walker, double now_ns) {
    State& state = states_[walker];
    const Slice& slice = state.active[state.cursor];
    if (slice.next < program(walker).actions.size() || slice.sends_left_ns > now_ns) return false;
    const std::size_t receives = program(walker).receives.size();
    const auto first =
        state.ready_ns.begin() + static_cast<std::ptrdiff_t>(slice.number % window_ * receives);
    std::fill(first, first + static_cast<std::ptrdiff_t>(receives), kNever);
    state.active.erase(state.active.begin() + static_cast<std::ptrdiff_t>(state.cursor));
    if (state.next_slice < pace_.slices) activate(state);
    state.moved = true;
    return true;
  }

  // What the walker waits for and is known already. (What is not known wakes it when it arrives.)
  void ask_known_wakes(std::uint32_t walker, double now_ns) {
    const Program& steps = program(walker);
    for (Slice& slice : states_[walker].active) {
      double known_ns = slice.sends_left_ns;
      if (slice.next < steps.actions.size()) {
        const Action& action = steps.actions[slice.next];
        known_ns = ready(walker, slice.number, steps.needs[action.first_need + slice.needs_met]);
      }
      if (known_ns <= now_ns || known_ns == kNever || known_ns == slice.wakes_ns) continue;
      slice.wakes_ns = known_ns;
      ask_wake(walker, known_ns);
    }
  }

  Result<Outcome> finish() {
    outcome_.first_done_ns = kNever;
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
      const State& state = states_[i];
      if (!state.active.empty()) return stuck(i);
      outcome_.time_ns = std::max(outcome_.time_ns, state.done_ns);
      outcome_.first_done_ns = std::min(outcome_.first_done_ns, state.done_ns);
      outcome_.most_busy_ns = std::max(outcome_.most_busy_ns, state.busy_ns);
      outcome_.most_sent_bytes = std::max(outcome_.most_sent_bytes, state.sent_bytes);
    }
    return outcome_;
  }

  Status stuck(std::uint32_t walker) const {
    const Slice& slice = states_[walker].active.front();
    return {ErrorCode::internal,
            fmt::format("rank {} waits for ever in slice {} at action {}: run verify() on this algorithm",
                        network_.walkers[walker].rank, slice.number, slice.next)};
  }

  const Network& network_;
  const Cut& cut_;
  const Pace& pace_;
  std::vector<Port> ports_;
  std::vector<Path> paths_;
  const std::uint32_t in_flight_;
  const std::uint32_t window_;
  std::vector<State> states_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  Outcome outcome_;
};

}  // namespace

Result<Outcome> simulate_events(const Network& network, const Cut& cut, const Pace& pace) {
  return Engine(network, cut, pace).run();
}

}  // namespace ferrule::sim
