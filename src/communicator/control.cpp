#include "communicator/control.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/log.hpp"

namespace ferrule::communicator {
namespace {

/// Between two looks at a transport that has failed, and therefore does not wait.
constexpr std::chrono::microseconds kNap{200};

}  // namespace

ControlPlane::ControlPlane(transport::Transport& transport, std::uint64_t communicator, Handler handler)
    : transport_(transport), communicator_(communicator), handler_(std::move(handler)) {
  transport_.set_control_handler([this](const transport::MessageHeader& header,
                                        std::span<const std::byte> payload) { handle(header, payload); });
}

ControlPlane::~ControlPlane() {
  transport_.set_control_handler(nullptr);
  for (const auto& outgoing : outgoing_) {
    if (!outgoing->send.done) transport_.cancel(outgoing->send);
  }
}

void ControlPlane::send_agree(std::int32_t peer, std::uint32_t sequence, std::uint32_t round,
                              std::uint64_t identity, std::string_view text) {
  transport::MessageHeader header;
  header.control_type = static_cast<std::uint8_t>(ControlType::agree);
  header.sequence = sequence;
  header.slice = round;
  header.plan = identity;
  post(peer, header, text);
}

void ControlPlane::send_failed(std::int32_t peer, std::uint32_t sequence, const Status& why) {
  transport::MessageHeader header;
  header.control_type = static_cast<std::uint8_t>(ControlType::failed);
  header.sequence = sequence;
  header.chunk = static_cast<std::uint32_t>(why.code());
  post(peer, header, why.text());
}

void ControlPlane::send_word(ControlType type, std::int32_t peer, std::uint32_t sequence,
                             std::string_view text) {
  transport::MessageHeader header;
  header.control_type = static_cast<std::uint8_t>(type);
  header.sequence = sequence;
  post(peer, header, text);
}

void ControlPlane::send_hash(std::int32_t peer, std::uint32_t sequence, std::uint32_t round,
                             std::uint64_t hash, bool equal) {
  transport::MessageHeader header;
  header.control_type = static_cast<std::uint8_t>(ControlType::hash);
  header.sequence = sequence;
  header.slice = round;
  header.plan = hash;
  header.chunk = equal ? 1 : 0;
  post(peer, header, {});
}

void ControlPlane::send_weights(std::int32_t peer, std::uint32_t sequence, std::uint32_t part,
                                std::string_view bytes) {
  transport::MessageHeader header;
  header.control_type = static_cast<std::uint8_t>(ControlType::weights);
  header.sequence = sequence;
  header.slice = part;
  post(peer, header, bytes);
}

void ControlPlane::post(std::int32_t peer, transport::MessageHeader header, std::string_view text) {
  auto outgoing = std::make_unique<Outgoing>();
  outgoing->text = text.substr(0, kMaxTextBytes);
  header.kind = transport::MessageKind::control;
  header.communicator = communicator_;
  header.source = transport_.rank();
  header.payload_bytes = static_cast<std::uint32_t>(outgoing->text.size());
  outgoing->send.peer = peer;
  outgoing->send.header = header;
  outgoing->send.payload = std::as_bytes(std::span(outgoing->text));
  transport::Send* pointer = &outgoing->send;
  outgoing_.push_back(std::move(outgoing));
  const Status posted = transport_.post({{&pointer, 1}, {}});
  if (posted.ok()) return;
  outgoing_.pop_back();
  log::info("could not tell rank {} about collective #{}: {}", peer, header.sequence, posted.text());
}

void ControlPlane::reap() {
  while (!outgoing_.empty() && outgoing_.front()->send.done) outgoing_.pop_front();
}

void ControlPlane::flush(Deadline deadline) {
  const auto all_done = [this] {
    return std::all_of(outgoing_.begin(), outgoing_.end(), [](const auto& item) { return item->send.done; });
  };
  // A transport that has failed still delivers to those that it has not lost, and they wait for the reason.
  while (!all_done() && !deadline.passed()) {
    if (!transport_.progress(deadline).ok()) std::this_thread::sleep_for(kNap);
  }
}

void ControlPlane::handle(const transport::MessageHeader& header, std::span<const std::byte> payload) const {
  const bool transfers = header.control_type >= static_cast<std::uint8_t>(ControlType::offer) &&
                         header.control_type <= static_cast<std::uint8_t>(ControlType::refuse);
  if (transfers && transfer_handler_ != nullptr) return transfer_handler_(header, payload);
  const bool known = header.control_type >= static_cast<std::uint8_t>(ControlType::agree) &&
                     header.control_type <= static_cast<std::uint8_t>(ControlType::weights);
  if (!known || payload.size() > kMaxTextBytes) {
    log::warn("ignored a control message of type {} and {} bytes from rank {}", header.control_type,
              payload.size(), header.source);
    return;
  }
  ControlMessage message{};
  message.type = static_cast<ControlType>(header.control_type);
  message.source = header.source;
  message.sequence = header.sequence;
  message.round = header.slice;
  message.identity = header.plan;
  message.equal = header.chunk == 1;
  const bool valid_code = header.chunk > 0 && header.chunk <= static_cast<std::uint32_t>(ErrorCode::internal);
  message.code = valid_code ? static_cast<ErrorCode>(header.chunk) : ErrorCode::internal;
  message.text.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
  handler_(message);
}

}  // namespace ferrule::communicator
