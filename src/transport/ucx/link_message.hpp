// Messages between the transports themselves, on an active message of their own: "I am here", "I am leaving".
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/secret_key.hpp"

namespace ferrule::transport::ucx {

enum class LinkEvent : std::uint32_t {
  hello = 1,     ///< the first message to each peer: the path works
  farewell = 2,  ///< the last one: an orderly departure, nothing was lost
};

struct LinkMessage {
  static constexpr std::uint32_t kMagic = 0x4b4c5246;  // "FRLK"

  std::uint32_t magic = kMagic;
  LinkEvent event = LinkEvent::hello;
  std::uint64_t communicator = 0;
  std::uint64_t messages = 0;  ///< of a farewell: how many the sender has sent to this peer in all
  std::int32_t source = 0;
  std::int32_t destination = 0;
  std::array<char, SecretKey::kTagBytes> proof{};  ///< over all of the above; zeros in a job without a secret

  /// Null unless the bytes are a link message of this communicator from one of `ranks` ranks.
  static std::optional<LinkMessage> parse(std::span<const std::byte> bytes, std::uint64_t communicator_id,
                                          std::int32_t ranks) {
    LinkMessage message;
    if (bytes.size() != sizeof(LinkMessage)) return std::nullopt;
    std::memcpy(&message, bytes.data(), sizeof(LinkMessage));
    const bool known = message.event == LinkEvent::hello || message.event == LinkEvent::farewell;
    if (message.magic != kMagic || !known || message.communicator != communicator_id) return std::nullopt;
    if (message.source < 0 || message.source >= ranks) return std::nullopt;
    return message;
  }

  void prove(const SecretKey& link_key) {
    const std::string tag = link_key.tag(kDomain, {claims()});
    std::memcpy(proof.data(), tag.data(), std::min(tag.size(), proof.size()));
  }
  /// Was it made by a rank of this communicator, for this destination? Without a key nothing is proven.
  bool is_proven(const std::optional<SecretKey>& link_key, std::int32_t to) const {
    if (!link_key) return true;
    return destination == to && link_key->accepts({proof.data(), proof.size()}, kDomain, {claims()});
  }

 private:
  static constexpr std::string_view kDomain = "ferrule ucx link 1";
  std::string_view claims() const {
    return {reinterpret_cast<const char*>(this), sizeof(LinkMessage) - SecretKey::kTagBytes};
  }
};
static_assert(sizeof(LinkMessage) == 48);  // no padding in what is proven

}  // namespace ferrule::transport::ucx
