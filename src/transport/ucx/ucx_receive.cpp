// UCX's callbacks for arriving messages. They run inside ucp_worker_progress() and must not call back into
// UCX beyond sending, so what they learn about peers is put down in news_.

#include <fmt/format.h>

#include <utility>

#include "base/log.hpp"
#include "transport/ucx/am_ids.hpp"
#include "transport/ucx/ucx_transport.hpp"

namespace ferrule::transport::ucx {
namespace {

std::span<const std::byte> bytes_of(const void* data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}

}  // namespace

Status UcxTransport::install_handlers() {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                     UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  // Whole messages only, and always in memory that may be kept: UCX copies the few that lie elsewhere.
  param.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  param.arg = this;
  param.id = kMessageId;
  param.cb = on_message;
  auto status = ucp_worker_set_am_recv_handler(worker_.get(), &param);
  if (status == UCS_OK) {
    param.id = kLinkId;
    param.cb = on_link_message;
    status = ucp_worker_set_am_recv_handler(worker_.get(), &param);
  }
  return status == UCS_OK ? Status() : ucx_error("installing message handlers", status);
}

ucs_status_t UcxTransport::on_message(void* transport, const void* header, std::size_t header_bytes,
                                      void* data, std::size_t bytes, const ucp_am_recv_param_t* param) {
  auto& self = *static_cast<UcxTransport*>(transport);
  return self.take_message(bytes_of(header, header_bytes), bytes_of(data, bytes), param->recv_attr);
}

ucs_status_t UcxTransport::take_message(std::span<const std::byte> header_bytes,
                                        std::span<const std::byte> payload, std::uint64_t attributes) {
  if ((attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    fail({ErrorCode::corrupt, fmt::format("UCX: rank {} was offered {} bytes by rendezvous; Ferrule's ranks "
                                          "send eagerly only, so this is no message of theirs",
                                          rank(), payload.size())});
    return UCS_OK;  // which refuses it
  }
  const auto header = transport::open(header_bytes);
  if (!header.ok()) {
    fail({header.status().code(), fmt::format("UCX: a message of {} bytes to rank {}: {}", payload.size(),
                                              rank(), header.status().text())});
    return UCS_OK;
  }
  ++counters_.messages_received;
  counters_.bytes_received += MessageHeader::kBytes + payload.size();

  const bool kept = !payload.empty() && (attributes & UCP_AM_RECV_ATTR_FLAG_DATA) != 0;
  offered_ = kept ? payload.data() : nullptr;
  declined_ = false;
  Received message(*header, payload, kept ? release_payload : nullptr, this,
                   const_cast<std::byte*>(payload.data()));
  message.stamp(Deadline::Clock::now());
  if (auto status = inbox_.deliver(std::move(message)); !status.ok()) {
    fail(std::move(status));
  } else if (Link& from = link(header->source); ++from.received == from.announced && from.left) {
    news_.push_back(from.peer);  // the last one
  }
  message.release();
  offered_ = nullptr;
  return kept && !declined_ ? UCS_INPROGRESS : UCS_OK;
}

void UcxTransport::release_payload(void* transport, void* payload) {
  auto& self = *static_cast<UcxTransport*>(transport);
  if (payload == self.offered_) {
    self.declined_ = true;  // UCX takes it back when the callback returns
  } else if (!self.abandoned_) {
    ucp_am_data_release(self.worker_.get(), payload);
  }
}

ucs_status_t UcxTransport::on_link_message(void* transport, const void* header, std::size_t header_bytes,
                                           void* /*data*/, std::size_t /*bytes*/,
                                           const ucp_am_recv_param_t* /*param*/) {
  static_cast<UcxTransport*>(transport)->take_link_message(bytes_of(header, header_bytes));
  return UCS_OK;
}

void UcxTransport::take_link_message(std::span<const std::byte> bytes) {
  const auto message = LinkMessage::parse(bytes, membership_.communicator, size());
  const bool ours = message && message->source != rank();
  if (!ours || !message->is_proven(membership_.link_key, rank())) {
    if (!std::exchange(told_of_strangers_, true)) {
      log::warn("UCX: rank {} dropped {} bytes on the link channel that are {}", rank(), bytes.size(),
                ours ? "no proof that their sender belongs to this job" : "no greeting of this communicator");
    }
    return;
  }
  Link& from = link(message->source);
  from.greeted = true;
  if (message->event == LinkEvent::farewell) {
    from.left = true;
    from.announced = message->messages;
  }
  news_.push_back(message->source);
}

}  // namespace ferrule::transport::ucx
