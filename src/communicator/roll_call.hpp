// The roll call of a collective that stalls: who has arrived, who is missing, and which one rank says so.
//
// A rank that has waited too long asks the ranks below it, 1, 2, 4, 8 ... at a time, whether they have
// arrived; one that has answers at once (it is waiting, too, and so drives communication), and then it is for
// that one to speak. The lowest rank that has arrived hears of nobody below it, asks all above it, and after
// a moment knows who is missing. It tells those who have arrived, so that all of them name the same ranks. In
// the usual case that is one question a rank, and world of them for the speaker.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "communicator/control.hpp"
#include "transport/registry.hpp"

namespace ferrule::communicator {

/// Used by the transport's owner only.
class RollCall {
 public:
  RollCall(ControlPlane& control, const transport::Membership& membership)
      : control_(control), membership_(membership) {}

  /// A collective begins: this rank has arrived in it.
  void begin(std::uint32_t sequence);
  /// Its end: questions about it are still answered.
  void end() { calling_ = false; }
  /// Starts a roll call of the current collective.
  void start();
  /// Goes on with it; cheap when there is none. True once: this rank is the one that speaks, and knows all.
  bool step();
  /// When step() has something to do; never, if there is nothing.
  Deadline next() const { return calling_ ? next_ : Deadline::never(); }
  /// An ask, here or missing has come in.
  void take(const ControlMessage& message);

  /// "rank 2 (host b, pid 7)": who has not arrived, once it is known. Empty: unknown, or all have.
  const std::string& missing() const { return missing_; }
  /// For the one that speaks: "rank 2 on host b".
  std::string missing_on_hosts() const;
  /// "ranks 0, 1, 3 have arrived"
  std::string arrived() const;
  bool all_arrived() const;

 private:
  void ask(std::int32_t first, std::int32_t last);
  void conclude();
  std::string name_absent(const std::function<std::string(std::int32_t)>& name) const;

  ControlPlane& control_;
  const transport::Membership& membership_;
  std::uint32_t sequence_ = 0;
  bool begun_ = false;  ///< any collective has: before it, nothing is answered
  bool calling_ = false;
  bool asks_all_ = false;     ///< nobody below has arrived: the ranks above were asked
  std::int32_t asked_ = 0;    ///< ranks below this were asked
  std::int32_t spoken_ = -1;  ///< a rank below that has arrived: it speaks
  Deadline next_ = Deadline::never();
  std::vector<char> here_;  ///< by rank; empty before a roll call
  std::string missing_;
};

}  // namespace ferrule::communicator
