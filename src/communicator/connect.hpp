// Makes communicators: settings, rendezvous, transport, decorators, in this order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "ferrule/status.hpp"
#include "rendezvous/meet.hpp"

namespace ferrule::communicator {

/// What the caller fixed; empty texts and zeros: from the settings.
struct Config {
  std::string transport;
  std::string codec;
  std::string algorithm;
  std::string link;
  std::string fault;
  std::chrono::nanoseconds timeout{0};
};

/// What a configuration and the settings make of all that is not the transport.
Result<Defaults> defaults_of(const Config& config);
/// The transport of ranks that have met, throttled or with faults where that is asked for. All ranks at once.
/// `one_process`: all ranks are threads of this process.
Result<std::unique_ptr<transport::Transport>> connect_transport(const rendezvous::Meeting& meeting,
                                                                const Config& config, Deadline deadline,
                                                                bool one_process = false);

using MadeCommunicator = Result<std::unique_ptr<Communicator>>;

/// At "tcp://host:port" or "file:///path".
MadeCommunicator connect_at(std::string_view rendezvous, std::int32_t rank, std::int32_t size,
                            const Config& config);
/// As the launcher says.
MadeCommunicator connect_from_environment(const Config& config);
/// Through a store of the caller's. `one_process`: all ranks are threads of this process.
MadeCommunicator connect_through(std::shared_ptr<rendezvous::Store> store, const rendezvous::Party& party,
                                 const Config& config, bool one_process = false);
/// Ranks that have met before.
struct Reunion {
  std::shared_ptr<rendezvous::Store> store;
  rendezvous::Party party;
  rendezvous::OwnInterface interface;
  Config config;  ///< but for planted faults: they were for the first one
  bool one_process = false;
  Descent descent;  ///< without a lineage: the first of a new one
  Deadline deadline = Deadline::never();
};
MadeCommunicator connect_again(const Reunion& reunion);
/// All ranks in this process.
Result<std::vector<std::unique_ptr<Communicator>>> connect_local(std::int32_t size, const Config& config);

}  // namespace ferrule::communicator
