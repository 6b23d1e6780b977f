// What a rank tells its peers so that they can connect: the value of the exchange "ucx".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/process.hpp"
#include "ferrule/status.hpp"

namespace ferrule::transport::ucx {

struct PeerAddress {
  std::uint32_t ucx_major = 0;
  std::uint32_t ucx_minor = 0;
  ProcessIdentity process;
  std::int32_t death_sign = -1;  ///< descriptor in that process
  std::uint16_t vigil_port = 0;  ///< 0: it keeps no vigil
  std::string worker;            ///< UCX's own opaque bytes

  std::string encode() const;
  /// The bytes come from another process: wrong lengths, magic or version are errors.
  static Result<PeerAddress> decode(std::string_view bytes);
};

}  // namespace ferrule::transport::ucx
