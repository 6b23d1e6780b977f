#include "cuda/backend/lane.hpp"

#include <algorithm>

#include "cuda/backend/error.hpp"

namespace ferrule::cuda {

Lane::~Lane() {
  for (const Point& point : open_) pool_->give(point.event);
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
}

Status Lane::open() {
  return to_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

Result<std::uint64_t> Lane::mark() {
  auto event = pool_->record(stream_);
  FERRULE_RETURN_IF_ERROR(event.status());
  open_.push_back({++last_, *event});
  return last_;
}

Result<bool> Lane::passed(std::uint64_t number) {
  while (!open_.empty() && open_.front().number <= number) {
    auto reached = query(open_.front().event);
    if (!reached.ok() || !*reached) return reached;
    pool_->give(open_.front().event);
    open_.pop_front();
  }
  return true;
}

Status Lane::follow(Lane& other, std::uint64_t number) {
  const auto point = std::find_if(other.open_.begin(), other.open_.end(),
                                  [&](const Point& candidate) { return candidate.number >= number; });
  if (number == 0 || point == other.open_.end()) return {};  // it has passed
  return to_status(cudaStreamWaitEvent(stream_, point->event, 0), "ordering two streams");
}

bool Lane::idle() const { return stream_ == nullptr || cudaStreamQuery(stream_) != cudaErrorNotReady; }

}  // namespace ferrule::cuda
