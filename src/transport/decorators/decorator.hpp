// A transport in front of another: passes everything on. Decorators override what they change.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "transport/transport.hpp"

namespace ferrule::transport {

class Decorator : public Transport {
 public:
  Decorator(std::unique_ptr<Transport> inner, std::string_view suffix)
      : inner_(std::move(inner)), name_(std::string(inner_->name()) + "+" + std::string(suffix)) {}

  std::string_view name() const override { return name_; }
  std::int32_t rank() const override { return inner_->rank(); }
  std::int32_t size() const override { return inner_->size(); }
  Caps caps() const override { return inner_->caps(); }
  Counters counters() const override { return inner_->counters(); }
  Status post(const Batch& batch) override { return inner_->post(batch); }
  Status progress(Deadline deadline) override { return inner_->progress(deadline); }
  void wake() override { inner_->wake(); }
  void cancel(Recv& recv) override { inner_->cancel(recv); }
  void cancel(Send& send) override { inner_->cancel(send); }
  void retire(std::uint32_t sequence) override { inner_->retire(sequence); }
  void set_control_handler(ControlHandler handler) override {
    inner_->set_control_handler(std::move(handler));
  }

 protected:
  static void end(Request& request, Status status) {
    request.status = std::move(status);
    request.done = true;
  }
  static Status cancelled() { return {ErrorCode::aborted, "the request was cancelled"}; }

  std::unique_ptr<Transport> inner_;

 private:
  std::string name_;
};

}  // namespace ferrule::transport
