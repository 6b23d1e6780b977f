// The TCP store's wire format. Every frame, both ways, little endian:
//
//   offset 0  u32 magic "FSTR"    4  u8 version    5  u8 operation    6  u16 key bytes    8  u32 value bytes
//   offset 12 key, then value
//
// A connection starts with a hello that names the job (store_auth.hpp has its value). The server answers ok
// or wrong_job; where the job has a secret: challenge, and ok after a proof of the client's, or no_access.
// Then requests follow one another, each answered once. With a secret each frame from there on is followed by
// a tag of 16 bytes. Anything that is not such a frame closes the connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ferrule/status.hpp"

namespace ferrule::rendezvous {

enum class StoreOperation : std::uint8_t {
  hello = 1,       ///< value: StoreHello
  set = 2,         ///< key, value
  get = 3,         ///< key; value: u64, how long the server may wait for the key, in ns
  proof = 4,       ///< value: the client's tag
  ok = 64,         ///< reply; value: what was asked for (to a proof: the server's tag)
  absent = 65,     ///< reply: the key did not come in time
  refused = 66,    ///< reply; value: one byte ErrorCode, then the reason
  wrong_job = 67,  ///< reply to hello, and the end of the connection
  challenge = 68,  ///< reply to hello; value: the server's nonce
  no_access = 69,  ///< reply to hello or proof, and the end of the connection; value: one byte NoAccess
};

/// Why a server turns away a client that named its job.
enum class NoAccess : std::uint8_t {
  client_has_no_secret = 1,
  server_has_no_secret = 2,
  wrong_secret = 3,
};

struct StoreFrame {
  static constexpr std::uint32_t kMagic = 0x52545346;  // "FSTR"
  static constexpr std::uint8_t kVersion = 2;
  static constexpr std::size_t kHeaderBytes = 12;
  static constexpr std::size_t kMaxJobBytes = 256;
  /// Of a frame from or to somebody who has not been accepted yet.
  static constexpr std::size_t kMaxStrangerBytes = 64 + kMaxJobBytes;
  using Header = std::array<unsigned char, kHeaderBytes>;

  StoreOperation operation{};
  std::size_t key_bytes = 0;
  std::size_t value_bytes = 0;

  /// Checks magic, version, a known operation, and lengths against Store::kMax* (of the exchange at the
  /// start: kMaxStrangerBytes).
  static Result<StoreFrame> parse(const Header& header);
};

/// Header, key and value in one piece. The lengths must be within the limits.
std::string make_frame(StoreOperation operation, std::string_view key, std::string_view value);

std::string encode_u64(std::uint64_t value);
/// Exactly 8 bytes.
std::uint64_t decode_u64(std::string_view bytes);

}  // namespace ferrule::rendezvous
