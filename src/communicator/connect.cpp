#include "communicator/connect.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "rendezvous/memory_store.hpp"
#include "transport/registry.hpp"

namespace ferrule::communicator {
namespace {

Result<Defaults> make_defaults(const Config& config, const Settings& settings) {
  Defaults defaults;
  defaults.codec = config.codec.empty() ? settings.text("FERRULE_CODEC") : config.codec;
  defaults.algorithm = config.algorithm.empty() ? settings.text("FERRULE_ALGO") : config.algorithm;
  defaults.timeout = config.timeout.count() == 0 ? settings.duration("FERRULE_TIMEOUT") : config.timeout;
  defaults.slice_bytes = settings.bytes("FERRULE_SLICE");
  defaults.slices_in_flight = static_cast<std::uint32_t>(settings.count("FERRULE_SLICES_IN_FLIGHT"));
  defaults.min_bytes = settings.bytes("FERRULE_MIN_BYTES");
  defaults.stall_warn = settings.duration("FERRULE_STALL_WARN");
  defaults.checksum = settings.flag("FERRULE_CHECKSUM");
  defaults.disable = settings.flag("FERRULE_DISABLE");
  return defaults;
}

Status check_world(std::int32_t rank, std::int32_t size) {
  if (size >= 1 && rank >= 0 && rank < size) return {};
  return Status(
      ErrorCode::invalid_argument,
      fmt::format("rank {} of {}: the size must be at least 1, the rank from 0 to size - 1", rank, size));
}

/// A communicator on a transport that is connected, with the decorators that the settings ask for.
MadeCommunicator finish(std::unique_ptr<transport::Transport> transport,
                        const transport::Membership& membership, const Config& config,
                        const Settings& settings) {
  auto defaults = make_defaults(config, settings);
  FERRULE_RETURN_IF_ERROR(defaults.status());
  return Communicator::make(std::move(transport), membership, *defaults);
}

}  // namespace

Result<std::vector<std::unique_ptr<Communicator>>> connect_local(std::int32_t size, const Config& config) {
  FERRULE_RETURN_IF_ERROR(check_world(0, size));
  auto settings = Settings::from_environment();
  FERRULE_RETURN_IF_ERROR(settings.status());
  static std::atomic<std::uint64_t> next_communicator{1};
  transport::Membership membership;
  membership.communicator = next_communicator++;
  membership.peers.resize(static_cast<std::size_t>(size), {"localhost", "local", ::getpid(), "127.0.0.1"});
  std::vector<MadeCommunicator> made;
  for (std::int32_t i = 0; i < size; ++i) made.emplace_back(Status(ErrorCode::internal, "not made"));
  std::vector<std::thread> threads;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      transport::Membership mine = membership;
      mine.rank = rank;
      auto transport = transport::find_transport("loopback")
                           ->connect(mine, nullptr, Deadline::after(std::chrono::seconds(30)));
      auto& slot = made[static_cast<std::size_t>(rank)];
      slot = transport.ok() ? finish(std::move(transport).value(), mine, config, *settings)
                            : MadeCommunicator(transport.status());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::unique_ptr<Communicator>> all;
  for (auto& each : made) {
    FERRULE_RETURN_IF_ERROR(each.status());
    all.push_back(std::move(each).value());
  }
  return all;
}

MadeCommunicator connect_at(std::string_view, std::int32_t rank, std::int32_t size, const Config&) {
  FERRULE_RETURN_IF_ERROR(check_world(rank, size));
  return Status(ErrorCode::unsupported, "rendezvous");
}
MadeCommunicator connect_from_environment(const Config&) {
  return Status(ErrorCode::unsupported, "rendezvous");
}
MadeCommunicator connect_through(rendezvous::Store&, std::string_view, std::int32_t, std::int32_t,
                                 const Config&) {
  return Status(ErrorCode::unsupported, "rendezvous");
}

}  // namespace ferrule::communicator
