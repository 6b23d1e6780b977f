// Registration of the UCX transport, and how ranks find out whether they can talk to each other.

#include <fmt/format.h>

#include <ctime>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/signals.hpp"
#include "transport/registry.hpp"
#include "transport/ucx/orphans.hpp"
#include "transport/ucx/ucx_transport.hpp"

namespace ferrule::transport {
namespace ucx {
namespace {

/// UCX promises no wire compatibility between minor releases, and a wrong byte in a gradient is worse than a
/// job that does not start: different versions are refused.
Status check_version(const Membership& membership, std::int32_t peer, const PeerAddress& mine,
                     const PeerAddress& theirs) {
  if (mine.ucx_major == theirs.ucx_major && mine.ucx_minor == theirs.ucx_minor) return {};
  return {ErrorCode::mismatch,
          fmt::format("{} runs UCX {}.{}, {} runs UCX {}.{}; UCX does not promise that they understand each "
                      "other: use the same UCX on all hosts",
                      membership.describe(membership.rank), mine.ucx_major, mine.ucx_minor,
                      membership.describe(peer), theirs.ucx_major, theirs.ucx_minor)};
}

/// Where ranks cannot all see each other's processes, they keep a vigil. Known before any address is: the
/// same on all ranks.
bool needs_vigil(const Membership& membership) { return membership.size() > 1 && !membership.single_host(); }

Result<PeerAddress> own_address(ucp_worker* worker) {
  auto address = worker_address(worker);
  if (!address.ok()) return address.status();
  PeerAddress mine;
  unsigned release = 0;
  ucp_get_version(&mine.ucx_major, &mine.ucx_minor, &release);
  mine.process = ProcessIdentity::of_this_process();
  mine.worker = std::move(*address);
  return mine;
}

Result<std::vector<PeerAddress>> exchange_addresses(const Membership& membership, const Exchange& exchange,
                                                    const PeerAddress& mine) {
  auto values = exchange("ucx", mine.encode());
  if (!values.ok()) return values.status();
  if (values->size() != membership.peers.size()) {
    return Status(ErrorCode::internal,
                  fmt::format("the exchange of UCX addresses gave {} values for {} ranks", values->size(),
                              membership.size()));
  }
  std::vector<PeerAddress> addresses;
  for (std::int32_t peer = 0; peer < membership.size(); ++peer) {
    auto address = PeerAddress::decode((*values)[static_cast<std::size_t>(peer)]);
    if (!address.ok()) {
      return Status(address.status().code(),
                    fmt::format("{}: {}", membership.describe(peer), address.status().text()));
    }
    FERRULE_RETURN_IF_ERROR(check_version(membership, peer, mine, *address));
    addresses.push_back(std::move(*address));
  }
  return addresses;
}

Result<std::unique_ptr<Transport>> try_to_connect(const Membership& membership, const Exchange& exchange,
                                                  Deadline deadline) {
  const auto choice = PathChoice::from_environment();
  // A process that ends while UCX makes its shared memory leaves a file behind.
  std::optional<SignalsHeld> held(std::in_place);
  auto context = make_context(choice, membership);
  if (!context.ok()) return context.status();
  auto worker = make_worker(context->get());
  if (!worker.ok()) return worker.status();
  held.reset();
  auto* const raw_worker = worker->get();
  auto transport =
      std::make_unique<UcxTransport>(membership, choice, std::move(*context), std::move(*worker));
  FERRULE_RETURN_IF_ERROR(transport->prepare());

  auto mine = own_address(raw_worker);
  if (!mine.ok()) return mine.status();
  DeathSign sign = DeathSign::make();
  mine->death_sign = sign.number();
  std::unique_ptr<Vigil> vigil;
  if (needs_vigil(membership)) {
    auto made = Vigil::listen(membership);
    if (!made.ok()) return made.status();
    vigil = std::move(*made);
    mine->vigil_port = vigil->port();
  }
  const auto addresses = exchange_addresses(membership, exchange, *mine);
  if (!addresses.ok()) return addresses.status();
  if (vigil) {
    std::vector<std::uint16_t> ports;
    for (const PeerAddress& address : *addresses) ports.push_back(address.vigil_port);
    FERRULE_RETURN_IF_ERROR(vigil->connect(ports, deadline));
  }
  FERRULE_RETURN_IF_ERROR(transport->watch_by(std::move(sign), std::move(vigil)));
  FERRULE_RETURN_IF_ERROR(transport->connect(*addresses, deadline));
  log::info("UCX {}.{} connects {} ranks (transports: {}, interface: {})", mine->ucx_major, mine->ucx_minor,
            membership.size(), choice.tls.empty() ? "all" : choice.tls,
            membership.interface.empty() ? "any" : membership.interface);
  return std::unique_ptr<Transport>(std::move(transport));
}

Result<std::unique_ptr<Transport>> connect(const Membership& membership, const Exchange& exchange,
                                           Deadline deadline) {
  const auto began = ::time(nullptr);
  auto made = try_to_connect(membership, exchange, deadline);
  // A rank that was killed while UCX made its shared memory has left a file there.
  if (!made.ok() && remove_orphaned_shared_memory(began - 1) > 0) {
    log::info("removed what a rank that died has left in /dev/shm");
  }
  return made;
}

}  // namespace
}  // namespace ucx

TransportDesc ucx_transport() { return {"ucx", true, ucx::connect}; }

}  // namespace ferrule::transport
