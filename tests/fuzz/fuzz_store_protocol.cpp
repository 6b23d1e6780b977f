// The TCP store's frames, and the lists of fields that travel as values of every store.
#include <cstring>

#include "fuzz/input.hpp"
#include "fuzz/require.hpp"
#include "rendezvous/fields.hpp"
#include "rendezvous/store.hpp"
#include "rendezvous/store_protocol.hpp"

namespace {

using namespace ferrule::rendezvous;

constexpr std::size_t kRebuilt = 4096;  // longer values are not made: that would be all that the target does

void check_frame(std::string_view bytes) {
  StoreFrame::Header header{};
  std::memcpy(header.data(), bytes.data(), std::min(bytes.size(), header.size()));
  const auto frame = StoreFrame::parse(header);
  if (!frame.ok()) return FERRULE_REQUIRE(frame.status().code() == ferrule::ErrorCode::corrupt);
  FERRULE_REQUIRE(frame->key_bytes <= Store::kMaxKeyBytes && frame->value_bytes <= Store::kMaxValueBytes);
  if (frame->value_bytes > kRebuilt) return;
  const std::string again =
      make_frame(frame->operation, std::string(frame->key_bytes, 'k'), std::string(frame->value_bytes, 'v'));
  FERRULE_REQUIRE(std::memcmp(again.data(), header.data(), header.size()) == 0);
}

void check_fields(std::string_view bytes) {
  const auto fields = unpack(bytes);
  if (!fields.ok()) return FERRULE_REQUIRE(fields.status().code() == ferrule::ErrorCode::corrupt);
  FERRULE_REQUIRE(pack(*fields) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  ferrule::fuzz::Input input(data, bytes);
  if (input.flag()) {
    check_fields(input.rest());
  } else {
    check_frame(input.rest());
  }
  const auto number = ferrule::fuzz::Input(data, bytes).take<std::uint64_t>();
  FERRULE_REQUIRE(decode_u64(encode_u64(number)) == number);
  return 0;
}
