// The active messages of this transport.
#pragma once

namespace ferrule::transport::ucx {

constexpr unsigned kMessageId = 1;  ///< header: a sealed MessageHeader; payload: the message's
constexpr unsigned kLinkId = 2;     ///< header: a LinkMessage; no payload

}  // namespace ferrule::transport::ucx
