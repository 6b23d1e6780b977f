// Message headers as they come off the wire: raw bytes, and rightly sealed ones with one bit or one field
// wrong.
#include <cstring>

#include "fuzz/input.hpp"
#include "fuzz/require.hpp"
#include "transport/message.hpp"

namespace {

using ferrule::fuzz::Input;
using ferrule::transport::HeaderBytes;
using ferrule::transport::MessageHeader;
using ferrule::transport::MessageKind;

constexpr std::size_t kBytes = MessageHeader::kBytes;

MessageHeader any_header(Input& input) {
  MessageHeader header;
  header.kind = static_cast<MessageKind>(input.take<std::uint8_t>());
  header.control_type = input.take<std::uint8_t>();
  header.communicator = input.take<std::uint64_t>();
  header.source = input.take<std::int32_t>();
  header.sequence = input.take<std::uint32_t>();
  header.slice = input.take<std::uint32_t>();
  header.ordinal = input.take<std::uint32_t>();
  header.chunk = input.take<std::uint32_t>();
  header.plan = input.take<std::uint64_t>();
  header.payload_bytes = input.take<std::uint32_t>();
  header.payload_checksum = input.take<std::uint32_t>();
  return header;
}

// Whatever open() accepts must be what seal() would have written.
void check_raw(std::string_view raw) {
  const auto header = ferrule::transport::open(std::as_bytes(std::span(raw)));
  if (!header.ok()) return FERRULE_REQUIRE(!header.status().text().empty());
  HeaderBytes again;
  ferrule::transport::seal(*header, again);
  FERRULE_REQUIRE(raw.size() == kBytes && std::memcmp(again, raw.data(), kBytes) == 0);
}

void check_sealed(Input& input) {
  const MessageHeader header = any_header(input);
  HeaderBytes bytes;
  ferrule::transport::seal(header, bytes);
  const bool known = header.kind == MessageKind::data || header.kind == MessageKind::control;
  const auto opened = ferrule::transport::open(bytes);
  FERRULE_REQUIRE(opened.ok() == known);
  if (known) check_raw({reinterpret_cast<const char*>(bytes), kBytes});
  const std::uint32_t bit = input.pick(8 * kBytes);
  bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  FERRULE_REQUIRE(!ferrule::transport::open(bytes).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  Input input(data, bytes);
  if (input.flag()) {
    check_sealed(input);
  } else {
    check_raw(input.rest());
  }
  return 0;
}
