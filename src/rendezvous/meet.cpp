#include "rendezvous/meet.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "rendezvous/interface.hpp"
#include "rendezvous/job_secret.hpp"
#include "rendezvous/join.hpp"
#include "rendezvous/open_place.hpp"
#include "rendezvous/sealed_store.hpp"
#include "rendezvous/wrapped_stores.hpp"

namespace ferrule::rendezvous {
namespace {

// What this process has opened, and how often it has met where. Kept until the process ends, so that the
// second communicator finds the server of the first, and late ranks find out why they are too late.
class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }
  ~Registry() { forget_if_forked(); }

  /// The next group's name: a number. All ranks meet in the same order, so they count alike.
  std::string next_group(const std::string& place, std::int32_t rank) {
    const std::lock_guard lock(mutex_);
    forget_if_forked();
    return std::to_string(turns_[{place, rank}]++);
  }

  /// The lock is held while opening: two communicators of one process must not both try to serve.
  template <class Open>
  Result<OpenedPlace> served(const std::string& place, const Open& open) {
    const std::lock_guard lock(mutex_);
    forget_if_forked();
    if (const auto found = served_.find(place); found != served_.end()) return found->second;
    Result<OpenedPlace> opened = open();
    if (opened.ok() && opened->is_server) served_.emplace(place, *opened);
    return opened;
  }

 private:
  // A child made by fork() has the servers' memory, but not their threads: it must neither use nor end them.
  void forget_if_forked() {
    if (owner_ == ::getpid()) return;
    owner_ = ::getpid();
    new std::map<std::string, OpenedPlace>(std::move(served_));  // NOLINT: leaked on purpose
    served_.clear();
    turns_.clear();
  }

  std::mutex mutex_;
  pid_t owner_ = ::getpid();
  std::map<std::string, OpenedPlace> served_;
  std::map<std::pair<std::string, std::int32_t>, std::uint64_t> turns_;
};

Status check_party(std::int32_t rank, std::int32_t size) {
  if (size >= 1 && rank >= 0 && rank < size) return Status();
  return Status(ErrorCode::invalid_argument,
                fmt::format("rank {} of {}: the size must be at least 1, and ranks count from 0 to size - 1",
                            rank, size));
}

struct Gathered {
  std::shared_ptr<Store> store;
  Party party;
  std::optional<SecretKey> secret;
  std::optional<SocketAddress> address;
  bool single_host = false;
  std::optional<OwnInterface> interface = std::nullopt;  ///< chosen here, if none
};

Result<OwnInterface> interface_of(const Gathered& gathered) {
  if (gathered.interface) return *gathered.interface;
  const auto choice = choose_interface(gathered.address, gathered.single_host);
  if (!choice.ok()) return choice.status();
  return OwnInterface{choice->ip, choice->name};
}

// Keys of the group alone, with values that only holders of the key can have set.
std::shared_ptr<Store> group_store(const Gathered& gathered, const std::optional<SecretKey>& key) {
  return std::make_shared<PrefixStore>(std::make_shared<SealedStore>(gathered.store, key),
                                       gathered.party.group);
}

Result<Meeting> meet_in_group(const Gathered& gathered, Deadline deadline) {
  const Party& party = gathered.party;
  const auto interface = interface_of(gathered);
  if (!interface.ok()) return interface.status();
  auto store = group_store(gathered, gathered.secret);
  JoinRequest request{party.rank, party.size, interface->address, interface->name, {}, gathered.secret};
  if (settings::text("FERRULE_SOCKET_IFNAME").empty()) request.loopback = loopback_interface();
  Result<Membership> membership = join(*store, request, deadline);
  if (!membership.ok()) return membership.status();
  // From here on with a key that no other group has had, so that nothing of theirs is taken for this one's.
  if (membership->link_key) store = group_store(gathered, membership->link_key->derive("exchange", {}));
  if (party.size > 1) {
    log::info("rendezvous: rank {} of {} has met the others at {}", party.rank, party.size,
              store->describe());
  }
  auto exchange = make_exchange(store, party.rank, party.size, deadline,
                                [members = *membership] { return look_for_deaths(members); });
  return Meeting{std::move(*membership), std::move(exchange), store->describe()};
}

}  // namespace

Result<Meeting> meet(const World& world, Deadline deadline) {
  FERRULE_RETURN_IF_ERROR(check_party(world.rank, world.size));
  const auto secret = job_secret();
  if (!secret.ok()) return secret.status();
  if (world.size == 1 || !world.place) {
    if (world.size != 1)
      return Status(ErrorCode::invalid_argument, world.describe() + ", but no place to meet");
    return meet_in_group({std::make_shared<MemoryStore>(), {"0", 0, 1}, *secret, std::nullopt, true},
                         deadline);
  }
  const Place& place = *world.place;
  const std::string name = place.text() + " " + place.job;
  log::info("rendezvous: rank {} of {}, meeting at {}", world.rank, world.describe(), place.text());
  const auto open = [&] { return open_place(place, world, *secret, deadline); };
  // Only a rank 0 that serves has something to keep; with Server::address_owner the others may serve too.
  const bool may_serve = world.rank == 0 || place.server == Server::address_owner;
  const Result<OpenedPlace> opened = may_serve ? Registry::instance().served(name, open) : open();
  if (!opened.ok()) return opened.status();
  const std::string group = Registry::instance().next_group(name, world.rank);
  return meet_in_group(
      {opened->store, {group, world.rank, world.size}, *secret, opened->address, world.is_single_host()},
      deadline);
}

Result<Meeting> meet_at(std::string_view place, std::int32_t rank, std::int32_t size, Deadline deadline) {
  Result<Place> parsed = parse_place(place);
  if (!parsed.ok()) return parsed.status();
  World world;
  world.rank = rank;
  world.size = size;
  world.launcher = world.variables = "the caller";
  world.place = std::move(*parsed);
  return meet(world, deadline);
}

Result<Meeting> meet_through(std::shared_ptr<Store> store, const Party& party, Deadline deadline) {
  FERRULE_RETURN_IF_ERROR(check_party(party.rank, party.size));
  if (party.group.empty()) return Status(ErrorCode::invalid_argument, "the group's name is empty");
  FERRULE_RETURN_IF_ERROR(check_key(party.group));
  const auto secret = job_secret();
  if (!secret.ok()) return secret.status();
  return meet_in_group({std::move(store), party, *secret, std::nullopt, party.size == 1}, deadline);
}

Result<Meeting> meet_again(std::shared_ptr<Store> store, const Party& party, const OwnInterface& interface,
                           Deadline deadline) {
  FERRULE_RETURN_IF_ERROR(check_party(party.rank, party.size));
  const auto secret = job_secret();
  if (!secret.ok()) return secret.status();
  return meet_in_group({std::move(store), party, *secret, std::nullopt, party.size == 1, interface},
                       deadline);
}

}  // namespace ferrule::rendezvous
