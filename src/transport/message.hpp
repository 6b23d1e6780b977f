// The header that travels before every payload: 64 bytes, little endian, sealed with a checksum.
// docs/wire_format.md has it byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ferrule/status.hpp"

namespace ferrule::transport {

enum class MessageKind : std::uint8_t {
  data = 1,     ///< one slot of one slice
  control = 2,  ///< agreement, errors, farewell: handed to the control handler, never matched to a receive
};

struct MessageHeader {
  static constexpr std::uint32_t kMagic = 0x4c525246;  // "FRRL"
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::size_t kBytes = 64;

  MessageKind kind = MessageKind::data;
  std::uint8_t control_type = 0;   ///< of a control message
  std::uint64_t communicator = 0;  ///< identity of the communicator, agreed at creation
  std::int32_t source = 0;         ///< rank of the sender
  std::uint32_t sequence = 0;      ///< collective on this communicator; wraps
  std::uint32_t slice = 0;
  std::uint32_t ordinal = 0;  ///< this is the ordinal-th message of this slice from source to destination
  std::uint32_t chunk = 0;
  std::uint64_t plan = 0;  ///< fingerprint of the plan, which covers count, dtype, op, codec, algorithm
  std::uint32_t payload_bytes = 0;
  std::uint32_t payload_checksum = 0;  ///< 0: not computed
};

using HeaderBytes = std::byte[MessageHeader::kBytes];

/// Writes the header and its checksum.
void seal(const MessageHeader& header, std::span<std::byte, MessageHeader::kBytes> out);
/// Reads and checks magic, version, kind and checksum. The error says which was wrong and shows the value.
Result<MessageHeader> open(std::span<const std::byte> bytes);

/// Checksum for MessageHeader::payload_checksum; never 0.
std::uint32_t payload_checksum(std::span<const std::byte> payload);

}  // namespace ferrule::transport
