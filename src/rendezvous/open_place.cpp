#include "rendezvous/open_place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "rendezvous/file_session.hpp"
#include "rendezvous/interface.hpp"
#include "rendezvous/job_secret.hpp"
#include "rendezvous/store_server.hpp"
#include "rendezvous/tcp_store.hpp"

namespace ferrule::rendezvous {
namespace {

using Addresses = std::vector<SocketAddress>;

// Names may appear late (containers that start one after the other), so a failed look-up is tried again.
Result<Addresses> resolve_hosts(const Place& place, Deadline deadline) {
  bool told = false;
  while (true) {
    Addresses all;
    Status problem;
    for (const std::string& host : place.hosts) {
      const Result<Addresses> some = resolve(host, 0, deadline);
      if (some.ok()) all.insert(all.end(), some->begin(), some->end());
      problem = some.status();
    }
    if (!all.empty()) return all;
    if (deadline.passed())
      return Status(ErrorCode::timeout, fmt::format("rendezvous {}: {}", place.text(), problem.text()));
    if (!std::exchange(told, true)) log::warn("rendezvous {}: {}; trying on", place.text(), problem.text());
    std::this_thread::sleep_for(
        std::min<std::chrono::nanoseconds>(std::chrono::milliseconds(500), deadline.left()));
  }
}

bool is_of_this_host(const SocketAddress& address, const std::vector<InterfaceAddress>& interfaces) {
  if (address.family() == AF_INET && address.is_loopback()) return true;  // all of 127/8
  return std::ranges::any_of(interfaces,
                             [&](const auto& entry) { return entry.address.ip() == address.ip(); });
}

Addresses of_this_host(const Addresses& addresses) {
  const auto interfaces = list_interfaces();
  Addresses ours;
  if (!interfaces.ok()) return ours;
  std::ranges::copy_if(addresses, std::back_inserter(ours),
                       [&](const auto& address) { return is_of_this_host(address, *interfaces); });
  return ours;
}

bool serves(const Place& place, const World& world, const Addresses& addresses) {
  if (place.server == Server::rank_zero || world.local_rank < 0) return world.rank == 0;
  return world.local_rank == 0 && !of_this_host(addresses).empty();
}

// True for names that the hosts file gives as 127.0.1.1, say, on this host only.
bool is_hidden_loopback(const Addresses& ours) {
  return std::ranges::all_of(ours, [](const SocketAddress& address) {
    return address.is_loopback() && address.ip() != "127.0.0.1" && address.ip() != "::1";
  });
}

// What to listen on: the place's addresses that are this host's. Where those are none (an address that a
// router translates), or none that others could reach, the interface that routes there.
Result<Addresses> listening_addresses(const Place& place, const World& world, const Addresses& addresses) {
  Addresses ours = of_this_host(addresses);
  if (!ours.empty() && (world.is_single_host() || !is_hidden_loopback(ours))) return ours;
  const auto choice = choose_interface(addresses.front(), world.is_single_host());
  if (!choice.ok()) return choice.status();
  log::warn("rendezvous: {} is {} here; also listening on {}", place.text(),
            ours.empty() ? "no address of this host" : "a loopback address", choice->ip);
  Result<Addresses> more = resolve(choice->ip, 0, Deadline::never());
  if (!more.ok()) return more;
  ours.insert(ours.begin(), more->begin(), more->end());
  return ours;
}

// No other host needs to reach it, so none can. (An IPv6 address is not changed to an IPv4 one: either may be
// switched off.)
void only_loopback(Addresses& addresses) {
  const bool ipv6 = addresses.front().family() == AF_INET6;
  if (std::ranges::any_of(addresses, [](const auto& address) { return address.is_loopback(); })) {
    std::erase_if(addresses, [](const auto& address) { return !address.is_loopback(); });
    return;
  }
  if (auto loopback = resolve(ipv6 ? "::1" : "127.0.0.1", 0, Deadline::never()); loopback.ok()) {
    addresses = std::move(*loopback);
  }
}

// Not a warning: most jobs run in networks that are trusted, and there a healthy job is silent.
void say_if_open(const Place& place, const Job& job, const Addresses& listening) {
  const bool local =
      std::ranges::all_of(listening, [](const auto& address) { return address.is_loopback(); });
  if (local || job.secret) return;
  log::info(
      "rendezvous: {} is not authenticated: whoever reaches it can join this job. Set FERRULE_JOB_SECRET "
      "or FERRULE_JOB_SECRET_FILE on all ranks to change that (docs/security.md)",
      place.text());
}

// Each rank opens one connection for each communicator that it is making, and more for calls that overlap.
std::size_t connections_for(std::int32_t ranks) { return 64 + 8 * static_cast<std::size_t>(ranks); }

Result<OpenedPlace> serve(const Place& place, const Job& job, const std::vector<std::uint16_t>& ports,
                          ServerOptions options) {
  options.job = job;
  Status problem;
  for (const std::uint16_t port : ports) {
    for (SocketAddress& address : options.addresses) address.set_port(port);
    auto server = StoreServer::listen(options);
    if (server.ok()) return OpenedPlace{*server, (*server)->addresses().front(), true};
    problem = server.status();
    log::info("rendezvous: {}", problem.text());
  }
  if (ports.size() == 1) return problem;
  return Status(problem.code(),
                fmt::format("rendezvous {}: none of {} ports could be had, from {} to {}; the last: {}",
                            place.text(), ports.size(), ports.front(), ports.back(), problem.text()));
}

Addresses with_ports(const Addresses& addresses, const std::vector<std::uint16_t>& ports) {
  Addresses candidates;
  for (const std::uint16_t port : ports) {
    for (SocketAddress address : addresses) {
      address.set_port(port);
      candidates.push_back(address);
    }
  }
  return candidates;
}

Result<OpenedPlace> find(const Place& place, const Job& job, const Addresses& candidates, Deadline deadline) {
  const auto store = TcpStore::connect(candidates, job, deadline);
  if (store.ok()) return OpenedPlace{*store, (*store)->address(), false};
  if (store.status().code() != ErrorCode::timeout) return store.status();
  const bool loopback =
      std::ranges::all_of(candidates, [](const auto& address) { return address.is_loopback(); });
  return Status(store.status().code(),
                fmt::format("rendezvous {}: {}.{} Is rank 0 running, and is the address that of its host?",
                            place.text(), store.status().text(),
                            loopback ? " A loopback address reaches this host only." : ""));
}

Result<std::optional<PortRange>> port_range() {
  const std::string text = settings::text("FERRULE_PORT_RANGE");
  if (text.empty()) return std::optional<PortRange>();
  const Result<PortRange> range = parse_port_range(text);
  if (!range.ok()) return range.status();
  return std::optional(range.value());
}

Result<OpenedPlace> open_file(const Place& place, const World& world, Deadline deadline) {
  auto session = world.rank == 0 ? FileSession::host(place.path) : FileSession::find(place.path, deadline);
  if (!session.ok()) return session.status();
  return OpenedPlace{*session, std::nullopt, world.rank == 0};
}

}  // namespace

Result<OpenedPlace> open_place(const Place& place, const World& world, const std::optional<SecretKey>& secret,
                               Deadline deadline) {
  if (place.kind == Place::Kind::file) return open_file(place, world, deadline);
  const auto range = port_range();
  if (!range.ok()) return range.status();
  const std::vector<std::uint16_t> ports = candidate_ports(place, *range);
  Result<Addresses> addresses = resolve_hosts(place, deadline);
  if (!addresses.ok()) return addresses.status();
  if (world.is_single_host() && !of_this_host(*addresses).empty()) only_loopback(*addresses);
  const Job job(place.job, secret);
  if (!serves(place, world, *addresses)) return find(place, job, with_ports(*addresses, ports), deadline);
  Result<Addresses> listening = listening_addresses(place, world, *addresses);
  if (!listening.ok()) return listening.status();
  say_if_open(place, job, *listening);
  ServerOptions options;
  options.addresses = std::move(*listening);
  options.max_clients = connections_for(world.size);
  return serve(place, job, ports, std::move(options));
}

}  // namespace ferrule::rendezvous
