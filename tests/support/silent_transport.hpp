// A transport that takes every send at once and lets a test play the peers' control messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "transport/transport.hpp"

namespace ferrule::testing {

class SilentTransport final : public transport::Transport {
 public:
  explicit SilentTransport(std::int32_t size) : size_(size) {}

  std::string_view name() const override { return "silent"; }
  std::int32_t rank() const override { return 0; }
  std::int32_t size() const override { return size_; }
  transport::Caps caps() const override { return {}; }
  transport::Counters counters() const override { return {}; }
  Status post(const transport::Batch& batch) override {
    for (transport::Send* send : batch.sends) {
      if (on_send) on_send(*send);
      send->done = true;
    }
    return {};
  }
  Status progress(Deadline) override { return {}; }
  void wake() override {}
  void cancel(transport::Recv&) override {}
  void cancel(transport::Send&) override {}
  void retire(std::uint32_t) override {}
  void set_control_handler(transport::ControlHandler handler) override { handler_ = std::move(handler); }

  /// A control message comes in.
  void arrive(const transport::MessageHeader& header, std::string_view text) {
    handler_(header, std::as_bytes(std::span(text)));
  }

  /// Sees every send.
  std::function<void(const transport::Send&)> on_send;

 private:
  std::int32_t size_;
  transport::ControlHandler handler_;
};

}  // namespace ferrule::testing
