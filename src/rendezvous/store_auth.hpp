// How the two ends of a store's connection prove to each other that they know the job's secret, and the tags
// of the frames after that. docs/security.md describes the exchange.
//
//   client -> server   hello      its nonce, that it has a secret, the job's name
//   server -> client   challenge  its nonce
//   client -> server   proof      tag over both nonces and the job's name
//   server -> client   ok         the server's tag over the same
//
// The client proves first, so that strangers who connect learn nothing to try secrets on. Nonces are new for
// each connection: what was heard on one is worth nothing on another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret_key.hpp"

namespace ferrule::rendezvous {

inline constexpr std::size_t kNonceBytes = 32;

/// The value of a hello frame.
struct StoreHello {
  bool has_secret = false;
  std::string nonce = std::string(kNonceBytes, '\0');  ///< zeros without a secret
  std::string job;

  std::string encode() const;
  static std::optional<StoreHello> decode(std::string_view value);
};

enum class Side : std::uint8_t { client, server };

/// What both sides of one connection know.
struct Handshake {
  SecretKey secret;
  std::string client_nonce;
  std::string server_nonce;
  std::string job;

  std::string proof_of(Side side) const;
  bool accepts_proof_of(Side side, std::string_view proof) const;
};

/// Tags for the frames of one connection, as one end sees them. A frame that was changed, left out, repeated
/// or sent back has the wrong one.
class FrameTags {
 public:
  FrameTags(const Handshake& handshake, Side self);

  /// To send behind the frame. Each call counts one frame.
  std::string of_next_sent(std::string_view header, std::string_view body);
  bool accept_next_received(std::string_view header, std::string_view body, std::string_view tag);

 private:
  SecretKey sent_key_;
  SecretKey received_key_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace ferrule::rendezvous
