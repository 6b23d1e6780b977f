#include "rendezvous/store_auth.hpp"

#include "rendezvous/store_protocol.hpp"

namespace ferrule::rendezvous {
namespace {

std::string_view proof_domain(Side side) {
  return side == Side::client ? "ferrule store client 2" : "ferrule store server 2";
}
std::string_view frames_domain(Side sender) {
  return sender == Side::client ? "ferrule store client frames 2" : "ferrule store server frames 2";
}
Side other(Side side) { return side == Side::client ? Side::server : Side::client; }

SecretKey frames_key(const Handshake& h, Side sender) {
  return h.secret.derive(frames_domain(sender), {h.client_nonce, h.server_nonce, h.job});
}

constexpr std::string_view kFrame = "frame";

}  // namespace

std::string StoreHello::encode() const { return std::string(1, has_secret ? '\1' : '\0') + nonce + job; }

std::optional<StoreHello> StoreHello::decode(std::string_view value) {
  if (value.size() < 1 + kNonceBytes || static_cast<unsigned char>(value[0]) > 1) return std::nullopt;
  return StoreHello{value[0] == 1, std::string(value.substr(1, kNonceBytes)),
                    std::string(value.substr(1 + kNonceBytes))};
}

std::string Handshake::proof_of(Side side) const {
  return secret.tag(proof_domain(side), {client_nonce, server_nonce, job});
}

bool Handshake::accepts_proof_of(Side side, std::string_view proof) const {
  return secret.accepts(proof, proof_domain(side), {client_nonce, server_nonce, job});
}

FrameTags::FrameTags(const Handshake& handshake, Side self)
    : sent_key_(frames_key(handshake, self)), received_key_(frames_key(handshake, other(self))) {}

std::string FrameTags::of_next_sent(std::string_view header, std::string_view body) {
  return sent_key_.tag(kFrame, {encode_u64(sent_++), header, body});
}

bool FrameTags::accept_next_received(std::string_view header, std::string_view body, std::string_view tag) {
  return received_key_.accepts(tag, kFrame, {encode_u64(received_++), header, body});
}

}  // namespace ferrule::rendezvous
