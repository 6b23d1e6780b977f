#include "transport/message.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace ferrule::transport {
namespace {

// Byte offsets; docs/wire_format.md has the same table. Bytes not named here are reserved and zero.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kKindAt = 5;
constexpr std::size_t kControlTypeAt = 6;
constexpr std::size_t kReservedByteAt = 7;
constexpr std::size_t kCommunicatorAt = 8;
constexpr std::size_t kSourceAt = 16;
constexpr std::size_t kSequenceAt = 20;
constexpr std::size_t kSliceAt = 24;
constexpr std::size_t kOrdinalAt = 28;
constexpr std::size_t kChunkAt = 32;
constexpr std::size_t kPayloadBytesAt = 36;
constexpr std::size_t kPlanAt = 40;
constexpr std::size_t kPayloadChecksumAt = 48;
constexpr std::size_t kReservedWordsAt = 52;
constexpr std::size_t kHeaderChecksumAt = 60;

// Little endian by arithmetic, which compilers turn into one load or store where the machine is so too.
template <class T>
void store(std::byte* at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    at[i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
}

template <class T>
T load(const std::byte* at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<std::uint64_t>(std::to_integer<std::uint8_t>(at[i])) << (8 * i);
  }
  return static_cast<T>(value);
}

std::uint32_t header_checksum(const std::byte* bytes) {
  return static_cast<std::uint32_t>(XXH3_64bits(bytes, kHeaderChecksumAt));
}

Status corrupt(std::string text) { return {ErrorCode::corrupt, "message header: " + std::move(text)}; }

Status check_identity(std::span<const std::byte> bytes) {
  if (bytes.size() != MessageHeader::kBytes) {
    return corrupt(fmt::format("{} bytes long, expected {}", bytes.size(), MessageHeader::kBytes));
  }
  const auto magic = load<std::uint32_t>(&bytes[kMagicAt]);
  if (magic != MessageHeader::kMagic) {
    return corrupt(fmt::format("magic is {:#010x}, expected {:#010x}; is the sender a Ferrule rank?", magic,
                               MessageHeader::kMagic));
  }
  const auto version = load<std::uint8_t>(&bytes[kVersionAt]);
  if (version != MessageHeader::kVersion) {
    return {ErrorCode::mismatch, fmt::format("message header: wire format version {}, this rank speaks {}; "
                                             "install the same Ferrule on all ranks",
                                             version, MessageHeader::kVersion)};
  }
  return {};
}

Status check_content(std::span<const std::byte> bytes) {
  const auto stated = load<std::uint32_t>(&bytes[kHeaderChecksumAt]);
  const auto computed = header_checksum(bytes.data());
  if (stated != computed) {
    return corrupt(fmt::format("checksum is {:#010x}, its bytes give {:#010x}", stated, computed));
  }
  const auto kind = load<std::uint8_t>(&bytes[kKindAt]);
  if (kind != static_cast<std::uint8_t>(MessageKind::data) &&
      kind != static_cast<std::uint8_t>(MessageKind::control)) {
    return corrupt(fmt::format("kind is {}, expected 1 (data) or 2 (control)", kind));
  }
  const auto reserved_word = load<std::uint64_t>(&bytes[kReservedWordsAt]);
  if (bytes[kReservedByteAt] != std::byte{0} || reserved_word != 0) {
    return corrupt("reserved bytes are not zero");
  }
  return {};
}

}  // namespace

void seal(const MessageHeader& header, std::span<std::byte, MessageHeader::kBytes> out) {
  std::memset(out.data(), 0, out.size());
  store(&out[kMagicAt], MessageHeader::kMagic);
  store(&out[kVersionAt], MessageHeader::kVersion);
  store(&out[kKindAt], static_cast<std::uint8_t>(header.kind));
  store(&out[kControlTypeAt], header.control_type);
  store(&out[kCommunicatorAt], header.communicator);
  store(&out[kSourceAt], static_cast<std::uint32_t>(header.source));
  store(&out[kSequenceAt], header.sequence);
  store(&out[kSliceAt], header.slice);
  store(&out[kOrdinalAt], header.ordinal);
  store(&out[kChunkAt], header.chunk);
  store(&out[kPayloadBytesAt], header.payload_bytes);
  store(&out[kPlanAt], header.plan);
  store(&out[kPayloadChecksumAt], header.payload_checksum);
  store(&out[kHeaderChecksumAt], header_checksum(out.data()));
}

Result<MessageHeader> open(std::span<const std::byte> bytes) {
  FERRULE_RETURN_IF_ERROR(check_identity(bytes));
  FERRULE_RETURN_IF_ERROR(check_content(bytes));
  MessageHeader header;
  header.kind = static_cast<MessageKind>(load<std::uint8_t>(&bytes[kKindAt]));
  header.control_type = load<std::uint8_t>(&bytes[kControlTypeAt]);
  header.communicator = load<std::uint64_t>(&bytes[kCommunicatorAt]);
  header.source = load<std::int32_t>(&bytes[kSourceAt]);
  header.sequence = load<std::uint32_t>(&bytes[kSequenceAt]);
  header.slice = load<std::uint32_t>(&bytes[kSliceAt]);
  header.ordinal = load<std::uint32_t>(&bytes[kOrdinalAt]);
  header.chunk = load<std::uint32_t>(&bytes[kChunkAt]);
  header.payload_bytes = load<std::uint32_t>(&bytes[kPayloadBytesAt]);
  header.plan = load<std::uint64_t>(&bytes[kPlanAt]);
  header.payload_checksum = load<std::uint32_t>(&bytes[kPayloadChecksumAt]);
  return header;
}

std::uint32_t payload_checksum(std::span<const std::byte> payload) {
  const auto sum = static_cast<std::uint32_t>(XXH3_64bits(payload.data(), payload.size()));
  return std::max<std::uint32_t>(sum, 1);  // 0 means "not computed"
}

}  // namespace ferrule::transport
