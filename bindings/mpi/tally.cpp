#include "bindings/mpi/tally.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ferrule::mpi {

void Tally::done(std::uint64_t tensor_bytes, std::uint64_t raw_bytes, std::uint64_t sent_bytes,
                 double seconds) {
  const std::scoped_lock lock(mutex_);
  ++calls_;
  tensor_bytes_ += tensor_bytes;
  raw_bytes_ += raw_bytes;
  sent_bytes_ += sent_bytes;
  seconds_ += seconds;
}

void Tally::measured(double error) {
  const std::scoped_lock lock(mutex_);
  ++measurements_;
  largest_error_ = std::max(largest_error_, error);
}

bool Tally::saw_calls() const {
  const std::scoped_lock lock(mutex_);
  return calls_ + passed_on_.load(std::memory_order_relaxed) != 0;
}

std::string Tally::line(int rank, const std::string& codec) const {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t passed_on = passed_on_.load(std::memory_order_relaxed);
  const std::uint64_t all = calls_ + passed_on;
  if (calls_ == 0) return fmt::format("rank {}: all {} all-reduces were passed on to MPI", rank, all);
  std::string text = fmt::format(
      "rank {}: {} of {} all-reduces by Ferrule ({}), {:.1f} MB of tensors, sent {:.1f} MB", rank, calls_,
      all, codec, static_cast<double>(tensor_bytes_) / 1e6, static_cast<double>(sent_bytes_) / 1e6);
  if (sent_bytes_ != 0) {
    text +=
        fmt::format(" ({:.2f}x fewer)", static_cast<double>(raw_bytes_) / static_cast<double>(sent_bytes_));
  }
  text += fmt::format(", {:.3f} s", seconds_);
  if (measurements_ == 0) return text + ", error not measured (FERRULE_MPI_MEASURE)";
  return text + fmt::format(", largest relative error {:.2e} in {} measured", largest_error_, measurements_);
}

Tally& tally() {
  static Tally once;
  return once;
}

}  // namespace ferrule::mpi
