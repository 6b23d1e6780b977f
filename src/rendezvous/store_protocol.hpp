// The TCP store's wire format. Every frame, both ways, little endian:
//
//   offset 0  u32 magic "FSTR"    4  u8 version    5  u8 operation    6  u16 key bytes    8  u32 value bytes
//   offset 12 key, then value
//
// A connection starts with a hello whose value is the job's name; the server answers ok or wrong_job. Then
// requests follow one another, each answered once. Anything that is not such a frame closes the connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ferrule/status.hpp"

namespace ferrule::rendezvous {

enum class StoreOperation : std::uint8_t {
  hello = 1,       ///< value: the job's name
  set = 2,         ///< key, value
  get = 3,         ///< key; value: u64, how long the server may wait for the key, in ns
  ok = 64,         ///< reply; value: what was asked for
  absent = 65,     ///< reply: the key did not come in time
  refused = 66,    ///< reply; value: one byte ErrorCode, then the reason
  wrong_job = 67,  ///< reply to hello, and the end of the connection
};

struct StoreFrame {
  static constexpr std::uint32_t kMagic = 0x52545346;  // "FSTR"
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::size_t kHeaderBytes = 12;
  static constexpr std::size_t kMaxJobBytes = 256;
  using Header = std::array<unsigned char, kHeaderBytes>;

  StoreOperation operation{};
  std::size_t key_bytes = 0;
  std::size_t value_bytes = 0;

  /// Checks magic, version, a known operation, and lengths against Store::kMax* (hello: kMaxJobBytes).
  static Result<StoreFrame> parse(const Header& header);
};

/// Header, key and value in one piece. The lengths must be within the limits.
std::string make_frame(StoreOperation operation, std::string_view key, std::string_view value);

std::string encode_u64(std::uint64_t value);
/// Exactly 8 bytes.
std::uint64_t decode_u64(std::string_view bytes);

}  // namespace ferrule::rendezvous
