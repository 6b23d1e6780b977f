#include "transport/registry.hpp"

#include <algorithm>
#include <array>

namespace ferrule::transport {

#include "registered_transports.inc"

namespace {

#define FERRULE_TRANSPORT_ENTRY(word) word##_transport(),
// The table is made on first use, so that no constructor runs before main().
const auto& table() {
  static const std::array entries = {FERRULE_REGISTERED_TRANSPORT(FERRULE_TRANSPORT_ENTRY)};
  return entries;
}
#undef FERRULE_TRANSPORT_ENTRY

}  // namespace

std::span<const TransportDesc> transports() { return table(); }

const TransportDesc* find_transport(std::string_view name) {
  const auto all = transports();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& desc) { return desc.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace ferrule::transport
