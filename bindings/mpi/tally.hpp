// What the preload did in this process, and the line that says so at the end.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace ferrule::mpi {

/// Thread safe.
class Tally {
 public:
  void passed_on() { passed_on_.fetch_add(1, std::memory_order_relaxed); }
  /// A collective of Ferrule's that has ended well; `raw_bytes` is what a rank would send of it uncompressed.
  void done(std::uint64_t tensor_bytes, std::uint64_t raw_bytes, std::uint64_t sent_bytes, double seconds);
  /// Relative, in the L2 norm.
  void measured(double error);
  /// E.g. "rank 0: 12 of 40 all-reduces by Ferrule (int4), ...".
  std::string line(int rank, const std::string& codec) const;
  bool saw_calls() const;

 private:
  std::atomic<std::uint64_t> passed_on_{0};
  mutable std::mutex mutex_;
  std::uint64_t calls_ = 0;
  std::uint64_t tensor_bytes_ = 0;
  std::uint64_t raw_bytes_ = 0;
  std::uint64_t sent_bytes_ = 0;
  double seconds_ = 0;
  std::uint64_t measurements_ = 0;
  double largest_error_ = 0;
};

Tally& tally();

}  // namespace ferrule::mpi
