#include "communicator/connect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "communicator/lineage.hpp"
#include "rendezvous/launcher.hpp"
#include "rendezvous/memory_store.hpp"
#include "transport/decorators/fault.hpp"
#include "transport/decorators/throttle.hpp"
#include "transport/registry.hpp"

namespace ferrule::communicator {
namespace {

/// What the caller gave, or else the setting.
std::string pick(const std::string& given, const std::string& setting) {
  return given.empty() ? setting : given;
}

Result<Defaults> make_defaults(const Config& config, const Settings& settings) {
  Defaults defaults;
  defaults.codec = config.codec.empty() ? settings.text("FERRULE_CODEC") : config.codec;
  defaults.algorithm = config.algorithm.empty() ? settings.text("FERRULE_ALGO") : config.algorithm;
  defaults.topology = settings.text("FERRULE_TOPOLOGY");
  defaults.timeout = config.timeout.count() == 0 ? settings.duration("FERRULE_TIMEOUT") : config.timeout;
  defaults.slice_bytes = settings.bytes("FERRULE_SLICE");
  defaults.slices_in_flight = static_cast<std::uint32_t>(settings.count("FERRULE_SLICES_IN_FLIGHT"));
  defaults.min_bytes = settings.bytes("FERRULE_MIN_BYTES");
  defaults.stall_warn = settings.duration("FERRULE_STALL_WARN");
  defaults.threads =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(settings.count("FERRULE_THREADS"), 1024));
  defaults.trace = settings.text("FERRULE_TRACE");
  defaults.checksum = settings.flag("FERRULE_CHECKSUM");
  defaults.disable = settings.flag("FERRULE_DISABLE");
  auto tuning = TuningSource::parse(settings.text("FERRULE_TUNING"));
  FERRULE_RETURN_IF_ERROR(tuning.status());
  defaults.tuning = *tuning;
  const std::string& check = settings.text("FERRULE_CHECK");
  defaults.check_identity = check == "identity" || check == "all";
  defaults.check_nonfinite = check == "nonfinite" || check == "all";
  return defaults;
}

Status check_world(std::int32_t rank, std::int32_t size) {
  if (size >= 1 && rank >= 0 && rank < size) return {};
  return Status(
      ErrorCode::invalid_argument,
      fmt::format("rank {} of {}: the size must be at least 1, the rank from 0 to size - 1", rank, size));
}

Result<const transport::TransportDesc*> choose_transport(const std::string& asked,
                                                         const transport::Membership& who, bool one_process) {
  const bool automatic = asked == "auto";
  const std::string name = !automatic ? asked : one_process || who.size() == 1 ? "loopback" : "ucx";
  const transport::TransportDesc* found = transport::find_transport(name);
  if (found != nullptr && (found->cross_process || one_process || who.size() == 1)) return found;
  if (found != nullptr) {
    return Status(ErrorCode::unsupported,
                  fmt::format("transport '{}' connects ranks of one process only: use 'ucx' for {} processes",
                              name, who.size()));
  }
  std::string known;
  for (const transport::TransportDesc& each : transport::transports()) {
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  return Status(ErrorCode::unsupported,
                fmt::format("this build has no transport '{}' (it has {}){}", name, known,
                            automatic ? ": install UCX 1.13 or newer and build again" : ""));
}

/// What ranks tell each other before they connect.
struct Card {
  std::string wire;    ///< the transport, and what is in front of it
  std::string refuge;  ///< Refuge::text
};

Card read_card(const std::string& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  return {text.substr(0, end), text.substr(std::min(end + 1, text.size()))};
}

/// Ranks must use the same wire before they can tell each other anything else over it. Returns all refuges.
Result<std::vector<std::string>> exchange_cards(const rendezvous::Meeting& meeting, const Card& own) {
  const std::string& mine = own.wire;
  auto all = meeting.exchange("card", mine + "\n" + own.refuge);
  FERRULE_RETURN_IF_ERROR(all.status());
  std::vector<std::string> refuges;
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    const Card card = read_card((*all)[rank]);
    refuges.push_back(card.refuge);
    if (card.wire == mine) continue;
    return Status(
        ErrorCode::mismatch,
        fmt::format("ranks disagree about the transport: {} on {} but {} on {}. Set FERRULE_TRANSPORT and "
                    "FERRULE_LINK alike on all ranks",
                    mine, meeting.membership.describe(meeting.membership.rank), card.wire,
                    meeting.membership.describe(static_cast<std::int32_t>(rank))));
  }
  return refuges;
}

/// Where all ranks are on one host and share its addresses, nobody else needs to reach a refuge.
std::string refuge_address(const transport::Membership& membership) {
  const transport::Peer& self = membership.peers[static_cast<std::size_t>(membership.rank)];
  const bool local = std::all_of(membership.peers.begin(), membership.peers.end(), [&](const auto& peer) {
    return peer.host_id == self.host_id && peer.address == self.address;
  });
  if (!local) return self.address;
  return self.address.find(':') != std::string::npos ? "::1" : "127.0.0.1";
}

/// Null where none can be served: then the communicator works, but cannot be split, and this rank cannot lead
/// a shrink.
std::shared_ptr<rendezvous::Refuge> find_refuge(const transport::Membership& membership, bool one_process) {
  if (one_process || membership.size() == 1) return rendezvous::Refuge::of_threads();
  auto refuge = rendezvous::Refuge::at(refuge_address(membership));
  if (refuge.ok()) return *refuge;
  log::warn("{} serves no refuge, which split and shrink need: {}", membership.describe(membership.rank),
            refuge.status().text());
  return nullptr;
}

Result<std::unique_ptr<transport::Transport>> decorate(std::unique_ptr<transport::Transport> transport,
                                                       const std::string& link, const std::string& fault) {
  if (!link.empty()) {
    auto spec = transport::LinkSpec::parse(link);
    FERRULE_RETURN_IF_ERROR(spec.status());
    transport = transport::throttle(std::move(transport), *spec);
  }
  if (!fault.empty()) {
    auto plan = transport::FaultPlan::parse(fault);
    FERRULE_RETURN_IF_ERROR(plan.status());
    transport = transport::inject(std::move(transport), *plan);
  }
  return transport;
}

struct Start {
  Settings settings;
  Deadline deadline;
};

/// Beside what ranks have met with.
struct Making {
  const Config& config;
  Start start;
  bool one_process = false;
  bool plant_faults = true;
  Descent descent = {};
};

/// A transport, and where ranks may meet again.
struct Opened {
  std::unique_ptr<transport::Transport> transport;
  std::shared_ptr<rendezvous::Refuge> refuge;
  std::vector<std::string> refuges;  ///< of each rank
};

Descent first_descent(const rendezvous::Meeting& meeting, const Making& making) {
  Descent descent;
  descent.lineage = std::make_shared<Lineage>(meeting.membership, making.config, making.one_process);
  for (std::int32_t rank = 0; rank < meeting.membership.size(); ++rank) descent.root_ranks.push_back(rank);
  return descent;
}

std::string fault_of(const Making& making) {
  return making.plant_faults ? pick(making.config.fault, making.start.settings.text("FERRULE_FAULT"))
                             : std::string();
}

Result<Opened> open_transport(const rendezvous::Meeting& meeting, const Making& making) {
  const Config& config = making.config;
  const Settings& settings = making.start.settings;
  const std::string link = pick(config.link, settings.text("FERRULE_LINK"));
  auto desc = choose_transport(pick(config.transport, settings.text("FERRULE_TRANSPORT")), meeting.membership,
                               making.one_process);
  FERRULE_RETURN_IF_ERROR(desc.status());
  const auto refuge = find_refuge(meeting.membership, making.one_process);
  auto refuges = exchange_cards(
      meeting, {fmt::format("{} link '{}'", (*desc)->name, link), refuge == nullptr ? "" : refuge->text()});
  FERRULE_RETURN_IF_ERROR(refuges.status());
  auto transport = (*desc)->connect(meeting.membership, meeting.exchange, making.start.deadline);
  FERRULE_RETURN_IF_ERROR(transport.status());
  auto decorated = decorate(std::move(transport).value(), link, fault_of(making));
  FERRULE_RETURN_IF_ERROR(decorated.status());
  log::info("{} of {} joined at {} over {}", meeting.membership.describe(meeting.membership.rank),
            meeting.membership.size(), meeting.where, (*decorated)->name());
  return Opened{std::move(decorated).value(), refuge, std::move(refuges).value()};
}

MadeCommunicator make_communicator(const rendezvous::Meeting& meeting, const Making& making) {
  auto defaults = make_defaults(making.config, making.start.settings);
  FERRULE_RETURN_IF_ERROR(defaults.status());
  // A planted fault counts the messages of the caller's collectives.
  if (!fault_of(making).empty()) defaults->tuning = TuningSource{};
  auto opened = open_transport(meeting, making);
  FERRULE_RETURN_IF_ERROR(opened.status());
  auto made =
      Communicator::make(std::move(opened->transport), meeting.membership, std::move(defaults).value());
  FERRULE_RETURN_IF_ERROR(made.status());
  Descent descent = making.descent;
  if (descent.lineage == nullptr) {
    descent = first_descent(meeting, making);
    descent.lineage->refuge = opened->refuge;
    descent.lineage->refuges = std::move(opened->refuges);
  }
  (*made)->set_descent(std::move(descent));
  return made;
}

Result<Start> start(const Config& config) {
  auto settings = Settings::from_environment();
  FERRULE_RETURN_IF_ERROR(settings.status());
  const auto timeout = config.timeout.count() == 0 ? settings->duration("FERRULE_TIMEOUT") : config.timeout;
  return Start{*settings, Deadline::after(timeout)};
}

}  // namespace

Result<Defaults> defaults_of(const Config& config) {
  auto settings = Settings::from_environment();
  FERRULE_RETURN_IF_ERROR(settings.status());
  auto defaults = make_defaults(config, *settings);
  // A planted fault counts the messages of the caller's collectives.
  const bool is_faulty = !pick(config.fault, settings->text("FERRULE_FAULT")).empty();
  if (defaults.ok() && is_faulty) defaults->tuning = TuningSource{};
  return defaults;
}

Result<std::unique_ptr<transport::Transport>> connect_transport(const rendezvous::Meeting& meeting,
                                                                const Config& config, Deadline deadline,
                                                                bool one_process) {
  auto settings = Settings::from_environment();
  FERRULE_RETURN_IF_ERROR(settings.status());
  auto opened = open_transport(meeting, Making{config, Start{*settings, deadline}, one_process});
  FERRULE_RETURN_IF_ERROR(opened.status());
  return std::move(opened->transport);
}

MadeCommunicator connect_at(std::string_view place, std::int32_t rank, std::int32_t size,
                            const Config& config) {
  FERRULE_RETURN_IF_ERROR(check_world(rank, size));
  log::set_thread_rank(rank);
  auto started = start(config);
  FERRULE_RETURN_IF_ERROR(started.status());
  auto meeting = rendezvous::meet_at(place, rank, size, started->deadline);
  FERRULE_RETURN_IF_ERROR(meeting.status());
  return make_communicator(*meeting, {config, *started});
}

MadeCommunicator connect_from_environment(const Config& config) {
  auto world = rendezvous::world_from_environment();
  FERRULE_RETURN_IF_ERROR(world.status());
  log::set_thread_rank(world->rank);
  auto started = start(config);
  FERRULE_RETURN_IF_ERROR(started.status());
  if (world->rank == 0) log::info("{}", world->describe());
  auto meeting = rendezvous::meet(*world, started->deadline);
  FERRULE_RETURN_IF_ERROR(meeting.status());
  return make_communicator(*meeting, {config, *started});
}

MadeCommunicator connect_through(std::shared_ptr<rendezvous::Store> store, const rendezvous::Party& party,
                                 const Config& config, bool one_process) {
  FERRULE_RETURN_IF_ERROR(check_world(party.rank, party.size));
  log::set_thread_rank(party.rank);
  auto started = start(config);
  FERRULE_RETURN_IF_ERROR(started.status());
  auto meeting = rendezvous::meet_through(std::move(store), party, started->deadline);
  FERRULE_RETURN_IF_ERROR(meeting.status());
  return make_communicator(*meeting, {config, *started, one_process});
}

MadeCommunicator connect_again(const Reunion& reunion) {
  log::set_thread_rank(reunion.party.rank);
  auto settings = Settings::from_environment();
  FERRULE_RETURN_IF_ERROR(settings.status());
  auto meeting = rendezvous::meet_again(reunion.store, reunion.party, reunion.interface, reunion.deadline);
  FERRULE_RETURN_IF_ERROR(meeting.status());
  return make_communicator(
      *meeting, {reunion.config, {*settings, reunion.deadline}, reunion.one_process, false, reunion.descent});
}

Result<std::vector<std::unique_ptr<Communicator>>> connect_local(std::int32_t size, const Config& config) {
  constexpr std::int32_t kMostRanks = 1024;
  FERRULE_RETURN_IF_ERROR(check_world(0, size));
  if (size > kMostRanks) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("{} ranks in one process: at most {}", size, kMostRanks));
  }
  const auto store = std::make_shared<rendezvous::MemoryStore>();
  std::vector<std::unique_ptr<Communicator>> all(static_cast<std::size_t>(size));
  std::vector<Status> errors(all.size());
  std::vector<std::thread> threads;
  const auto make = [&](std::int32_t rank) {
    auto made = connect_through(store, {"local", rank, size}, config, true);
    errors[static_cast<std::size_t>(rank)] = made.status();
    if (made.ok()) all[static_cast<std::size_t>(rank)] = std::move(made).value();
  };
  Status started;
  for (std::int32_t rank = 0; rank < size && started.ok(); ++rank) {
    try {
      threads.emplace_back(make, rank);
    } catch (const std::system_error& error) {  // those that run end by their deadline
      started = Status(ErrorCode::system,
                       fmt::format("could not start a thread for rank {}: {}", rank, error.what()));
    }
  }
  for (std::thread& thread : threads) thread.join();
  FERRULE_RETURN_IF_ERROR(started);
  for (const Status& error : errors) FERRULE_RETURN_IF_ERROR(error);
  return all;
}

}  // namespace ferrule::communicator
