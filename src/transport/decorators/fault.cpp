#include "transport/decorators/fault.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/log.hpp"

namespace ferrule::transport {

std::unique_ptr<Transport> inject(std::unique_ptr<Transport> inner, const FaultPlan& plan) {
  return std::make_unique<FaultTransport>(std::move(inner), plan);
}

FaultTransport::FaultTransport(std::unique_ptr<Transport> inner, const FaultPlan& plan)
    : Decorator(std::move(inner), "fault") {
  std::copy_if(plan.faults.begin(), plan.faults.end(), std::back_inserter(faults_),
               [&](const Fault& fault) { return fault.rank < 0 || fault.rank == rank(); });
}

FaultTransport::~FaultTransport() {
  for (const Held& held : held_) end(*held.send, cancelled());
  for (const auto& one : spoilt_) inner_->cancel(one->send);
}

Status FaultTransport::dead() const {
  return {ErrorCode::aborted,
          fmt::format("rank {} died of a planted fault (die:nth={})", rank(), death_->nth)};
}

/// The fault of the data send that is posted now, or null.
const Fault* FaultTransport::next_fault() {
  ++sends_;
  const auto found =
      std::find_if(faults_.begin(), faults_.end(), [&](const Fault& fault) { return fault.nth == sends_; });
  return found == faults_.end() ? nullptr : &*found;
}

std::unique_ptr<FaultTransport::Private> FaultTransport::spoil(const Send& send, const Fault& fault) {
  auto made = std::make_unique<Private>();
  made->payload.assign(send.payload.begin(), send.payload.end());
  made->send.peer = send.peer;
  made->send.header = send.header;
  if (fault.kind == FaultKind::corrupt_header) {
    made->send.header.communicator ^= std::uint64_t{1} << (fault.seed % 64);
  } else if (fault.kind == FaultKind::truncate) {
    made->payload.resize(made->payload.size() - std::min<std::size_t>(fault.bytes, made->payload.size()));
  } else if (!made->payload.empty()) {
    const std::uint64_t bit = fault.seed * 0x9e3779b97f4a7c15u % (8 * made->payload.size());
    made->payload[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
  made->send.payload = made->payload;
  return made;
}

void FaultTransport::sort(Send& send, Sorted& sorted) {
  const Fault* fault = send.header.kind == MessageKind::data ? next_fault() : nullptr;
  if (fault == nullptr) {
    sorted.pass.push_back(&send);
    return;
  }
  log::info("planted fault on send {} of rank {}, to rank {}", sends_, rank(), send.peer);
  if (fault->kind == FaultKind::die) {
    sorted.death = fault;
  } else if (fault->kind == FaultKind::delay) {
    sorted.held.push_back({&send, Deadline::after(fault->delay)});
  } else {
    sorted.finished.push_back(&send);
    if (fault->kind == FaultKind::drop) return;
    sorted.spoilt.push_back(spoil(send, *fault));
    sorted.pass.push_back(&sorted.spoilt.back()->send);
  }
}

Status FaultTransport::post(const Batch& batch) {
  if (death_ != nullptr) return dead();
  const std::uint64_t before = sends_;
  Sorted sorted;
  for (Send* send : batch.sends) sort(*send, sorted);
  if (sorted.death != nullptr) {
    death_ = sorted.death;
    return dead();
  }
  if (Status status = inner_->post({sorted.pass, batch.recvs}); !status.ok()) {
    sends_ = before;
    return status;
  }
  for (Send* send : sorted.finished) end(*send, Status());
  for (const Held& held : sorted.held) held.send->done = false;
  std::move(sorted.held.begin(), sorted.held.end(), std::back_inserter(held_));
  std::move(sorted.spoilt.begin(), sorted.spoilt.end(), std::back_inserter(spoilt_));
  forget_done();
  return {};
}

void FaultTransport::forget_done() {
  std::erase_if(spoilt_, [](const auto& one) { return one->send.done; });
}

void FaultTransport::hand_on_held() {
  for (std::size_t i = 0; i < held_.size();) {
    if (!held_[i].due.passed()) {
      ++i;
      continue;
    }
    Send* const sends[] = {held_[i].send};
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    if (Status status = inner_->post({sends, {}}); !status.ok()) end(*sends[0], std::move(status));
  }
}

Status FaultTransport::progress(Deadline deadline) {
  if (death_ != nullptr) return dead();
  hand_on_held();
  for (const Held& held : held_) deadline = earlier(deadline, held.due);
  Status status = inner_->progress(deadline);
  hand_on_held();
  forget_done();
  return status;
}

void FaultTransport::cancel(Send& send) {
  if (send.done) return;
  const auto held =
      std::find_if(held_.begin(), held_.end(), [&](const Held& one) { return one.send == &send; });
  if (held == held_.end()) return inner_->cancel(send);
  held_.erase(held);
  end(send, cancelled());
}

}  // namespace ferrule::transport
