// A link in numbers, and the times at which its bytes leave and arrive. Pure arithmetic: no clock is read
// here.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/deadline.hpp"
#include "ferrule/status.hpp"

namespace ferrule::transport {

struct LinkSpec {
  double bits_per_second = 0;  ///< 0: not limited
  std::chrono::nanoseconds latency{0};

  /// "1gbit,1ms", "100mbit", "50ms": a bandwidth (kbit, mbit, gbit, tbit: powers of 1000, bits a second), a
  /// latency (us, ms, s; one way), or both in any order. The error names the bad word and what is allowed.
  static Result<LinkSpec> parse(std::string_view text);
  /// Canonical text, which parse() reads.
  std::string to_string() const;
  /// Bytes under way on a busy link.
  double bandwidth_delay_bytes() const {
    return bits_per_second / 8 * std::chrono::duration<double>(latency).count();
  }
};

/// One rank's full-duplex network card. Sends leave one after the other; what arrives comes in one after the
/// other. Times are exact in the model, however late the caller asks: lateness never adds up.
class LinkModel {
 public:
  using TimePoint = Deadline::Clock::time_point;

  explicit LinkModel(const LinkSpec& spec) : spec_(spec) {}

  /// When the last bit of a message posted at `now` has left.
  TimePoint leave(TimePoint now, std::size_t bytes) {
    egress_free_ = std::max(egress_free_, now) + transfer(bytes);
    return egress_free_;
  }
  /// When the receiver has a message whose last bit left its sender at `arrived`.
  TimePoint receive(TimePoint arrived, std::size_t bytes) {
    const TimePoint alone = arrived + spec_.latency;
    if (spec_.bits_per_second == 0) return alone;
    ingress_free_ = std::max(alone, ingress_free_ + transfer(bytes));
    return ingress_free_;
  }
  std::chrono::nanoseconds transfer(std::size_t bytes) const {
    if (spec_.bits_per_second == 0) return std::chrono::nanoseconds(0);
    return std::chrono::nanoseconds(std::llround(8e9 * static_cast<double>(bytes) / spec_.bits_per_second));
  }

 private:
  LinkSpec spec_;
  TimePoint egress_free_{};
  TimePoint ingress_free_{};
};

}  // namespace ferrule::transport
