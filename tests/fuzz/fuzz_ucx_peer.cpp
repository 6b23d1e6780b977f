// What UCX ranks tell each other beside messages: addresses through the rendezvous, link messages on the
// wire.
#include "fuzz/input.hpp"
#include "fuzz/require.hpp"
#include "transport/ucx/link_message.hpp"
#include "transport/ucx/peer_address.hpp"

namespace {

using namespace ferrule::transport::ucx;

void check_address(std::string_view bytes) {
  const auto address = PeerAddress::decode(bytes);
  if (!address.ok()) return FERRULE_REQUIRE(address.status().code() == ferrule::ErrorCode::corrupt);
  FERRULE_REQUIRE(!address->worker.empty() && address->encode() == bytes);
}

void check_link(ferrule::fuzz::Input& input) {
  const auto communicator = input.take<std::uint64_t>();
  const auto ranks = input.take<std::uint8_t>();
  const std::string_view bytes = input.rest();
  const auto message = LinkMessage::parse(std::as_bytes(std::span(bytes)), communicator, ranks);
  if (!message.has_value()) return;
  FERRULE_REQUIRE(message->communicator == communicator);
  FERRULE_REQUIRE(message->source >= 0 && message->source < ranks);
  FERRULE_REQUIRE(message->event == LinkEvent::hello || message->event == LinkEvent::farewell);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  ferrule::fuzz::Input input(data, bytes);
  if (input.flag()) {
    check_link(input);
  } else {
    check_address(input.rest());
  }
  return 0;
}
