// The link model: alpha-beta for one message, and ports and pipes that serve one message after the other.
//
// Pure arithmetic on nanoseconds as doubles (exact to better than 1e-9 for runs of days); standard headers
// only, so that anything that reasons about times can include it.
#pragma once

#include <algorithm>

namespace ferrule::sim {

/// A link in numbers. Both 0: infinitely fast.
struct LinkRate {
  double latency_ns = 0;
  double ns_per_byte = 0;

  double transfer_ns(double bytes) const { return bytes * ns_per_byte; }
  /// alpha + bytes * beta: a message that meets no other.
  double alone_ns(double bytes) const { return latency_ns + transfer_ns(bytes); }
};

/// A full-duplex network card, of one rank or shared by the ranks of a node. Messages leave one after the
/// other, and what arrives comes in one after the other: that is how incast costs.
struct Port {
  double ns_per_byte = 0;
  double egress_free_ns = 0;
  double ingress_free_ns = 0;
};

/// What lies between two ports. A shared fabric (`serial` false) has room for all; a pipe of its own carries
/// one message after the other at its own rate.
struct Path {
  double latency_ns = 0;
  double ns_per_byte = 0;  ///< serial only
  bool serial = false;
  double free_ns = 0;  ///< serial only
};

/// A message under way.
struct Flight {
  double arrives_ns = 0;   ///< its last bit, at a receiver that takes it at once
  double transfer_ns = 0;  ///< between its first and its last bit
};

/// The last bit of a message posted at `now_ns` has left.
inline double leave(Port& port, double now_ns, double bytes) {
  port.egress_free_ns = std::max(port.egress_free_ns, now_ns) + bytes * port.ns_per_byte;
  return port.egress_free_ns;
}

/// Bits are passed on as they come (cut-through), so that two stages of the same rate cost one transfer.
inline Flight cross(Path& path, double left_ns, double transfer_ns, double bytes) {
  if (!path.serial) return {left_ns + path.latency_ns, transfer_ns};
  const double own_ns = bytes * path.ns_per_byte;
  path.free_ns = std::max(left_ns, std::max(path.free_ns, left_ns - transfer_ns) + own_ns);
  return {path.free_ns + path.latency_ns, std::max(transfer_ns, own_ns)};
}

/// When the receiver has the message. Call it in order of `arrives_ns`.
inline double receive(Port& port, const Flight& flight, double bytes) {
  const double first_bit_ns = flight.arrives_ns - flight.transfer_ns;
  const double taken_ns = std::max(port.ingress_free_ns, first_bit_ns) + bytes * port.ns_per_byte;
  port.ingress_free_ns = std::max(flight.arrives_ns, taken_ns);
  return port.ingress_free_ns;
}

}  // namespace ferrule::sim
