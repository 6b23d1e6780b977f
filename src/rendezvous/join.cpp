#include "rendezvous/join.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>

#include "rendezvous/fields.hpp"
#include "rendezvous/gather.hpp"
#include "rendezvous/host_identity.hpp"
#include "rendezvous/store_protocol.hpp"

namespace ferrule::rendezvous {
namespace {

// What a rank says of itself.
struct Hello {
  std::string version;
  std::int64_t size = 0;
  Peer peer;
  std::string network;         // equal where loopback reaches
  std::uint64_t identity = 0;  // random: tells two processes apart that claim one rank

  std::string encode() const {
    return pack({version, std::to_string(size), peer.host, peer.host_id, std::to_string(peer.pid),
                 peer.address, network, std::to_string(identity), std::to_string(peer.start_ticks),
                 std::to_string(peer.pid_namespace), peer.memory_id});
  }
  /// "rank 1 (host b, pid 4711)"
  std::string describe(std::int32_t rank) const {
    return fmt::format("rank {} (host {}, pid {})", rank, peer.host, peer.pid);
  }
};

Peer peer_here(const HostIdentity& host, const std::string& address) {
  const auto process = ProcessIdentity::of_this_process();
  return {host.name, host.host, ::getpid(), address, process.start_ticks, process.pid_namespace, host.memory};
}

template <class T>
bool read_number(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

Result<Hello> decode_hello(std::int32_t rank, const std::string& bytes) {
  const auto fields = unpack(bytes);
  Hello hello;
  bool good = fields.ok() && fields->size() == 11;
  if (good) {
    const auto& f = *fields;
    hello = Hello{f[0], 0, {f[2], f[3], 0, f[5]}, f[6], 0};
    good = read_number(f[1], hello.size) && read_number(f[4], hello.peer.pid) &&
           read_number(f[7], hello.identity) && read_number(f[8], hello.peer.start_ticks) &&
           read_number(f[9], hello.peer.pid_namespace);
    hello.peer.memory_id = f[10];
  }
  if (good) return hello;
  return Status(ErrorCode::mismatch,
                fmt::format("what rank {} says of itself cannot be read; does it use another "
                            "version of Ferrule?",
                            rank));
}

Result<std::uint64_t> random_identity() {
  const Result<std::string> bytes = random_bytes(8);
  if (!bytes.ok()) return bytes.status();
  return decode_u64(*bytes) | 1;  // never 0
}

Result<Hello> hello_of_this_rank(const JoinRequest& request) {
  const Result<std::uint64_t> identity = random_identity();
  if (!identity.ok()) return identity.status();
  const HostIdentity host = host_identity();
  Hello hello;
  hello.version = request.version.empty() ? FERRULE_VERSION : request.version;
  hello.size = request.size;
  hello.peer = peer_here(host, request.address);
  hello.network = host.network;
  hello.identity = *identity;
  return hello;
}

Status two_claims(std::int32_t rank, const Hello& one, const Hello& other) {
  return Status(
      ErrorCode::mismatch,
      fmt::format("two processes claim rank {}: host {}, pid {}, and host {}, pid {}; check the launcher's "
                  "variables (or the group's name, which must be new for each communicator)",
                  rank, one.peer.host, one.peer.pid, other.peer.host, other.peer.pid));
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

// Rank 0's check of each rank against itself.
Status check_hello(const Hello& zero, std::int32_t rank, const std::string& bytes) {
  const Result<Hello> hello = decode_hello(rank, bytes);
  if (!hello.ok()) return hello.status();
  if (hello->version != zero.version) {
    return Status(ErrorCode::mismatch,
                  fmt::format("{} has Ferrule {}, {} has {}; install the same version", hello->describe(rank),
                              hello->version, zero.describe(0), zero.version));
  }
  if (hello->size != zero.size) {
    return Status(ErrorCode::mismatch,
                  fmt::format("{} says that there are {} ranks, {} says {}", hello->describe(rank),
                              hello->size, zero.describe(0), zero.size));
  }
  if (hello->network == zero.network ||
      (!is_loopback(hello->peer.address) && !is_loopback(zero.peer.address))) {
    return Status();
  }
  return Status(
      ErrorCode::system,
      fmt::format("{} offers the address {} and {} offers {}: loopback does not reach other hosts; set "
                  "FERRULE_SOCKET_IFNAME to the interface between them",
                  zero.describe(0), zero.peer.address, hello->describe(rank), hello->peer.address));
}

// The group that this rank was to join has met, with another process in its place.
Status too_late(const Status& claims) {
  return Status(claims.code(),
                claims.text() +
                    ". The first has met the others already, and a rank that was restarted cannot take its "
                    "place: start all ranks again, or let the others go on without it");
}

// A rank that is taken: tells all of it.
Status claim_conflict(const Gathering& gathering, const Hello& mine, const std::string& theirs) {
  const Result<Hello> other = decode_hello(gathering.rank, theirs);
  const Status status = other.ok() ? two_claims(gathering.rank, *other, mine) : other.status();
  if (other.ok() && has_ended(gathering)) return too_late(status);
  spoil(gathering, status);
  return status;
}

Result<Membership> make_membership(const JoinRequest& request, const Hello& mine,
                                   const std::vector<std::string>& values) {
  if (values.size() != static_cast<std::size_t>(request.size)) {
    return Status(ErrorCode::mismatch, fmt::format("{} says that there are {} ranks, rank 0 says {}",
                                                   mine.describe(request.rank), request.size, values.size()));
  }
  Membership membership;
  membership.rank = request.rank;
  membership.interface = request.interface;
  for (std::int32_t rank = 0; rank < request.size; ++rank) {
    const Result<Hello> hello = decode_hello(rank, values[rank]);
    if (!hello.ok()) return hello.status();
    if (rank == 0) membership.communicator = hello->identity;
    if (rank == request.rank && hello->identity != mine.identity) return two_claims(rank, *hello, mine);
    membership.peers.push_back(hello->peer);
  }
  if (!request.loopback.empty() && membership.single_host()) membership.interface = request.loopback;
  if (request.secret) {
    // Made of what all ranks have said, this one's random number included: it cannot be an earlier group's.
    membership.link_key = request.secret->derive("ferrule communicator 1", {pack(values)});
    membership.communicator = decode_u64(membership.link_key->tag("communicator", {})) | 1;
  }
  return membership;
}

}  // namespace

Result<Membership> join(Store& store, const JoinRequest& request, Deadline deadline) {
  const Result<Hello> hello = hello_of_this_rank(request);
  if (!hello.ok()) return hello.status();
  const Hello& mine = *hello;
  Gathering gathering{store, "hello", request.rank, request.size, deadline, {}};
  Membership met;  // those whose hello is here, from rank 0 on
  met.rank = request.rank;
  gathering.check = [&](std::int32_t rank, const std::string& value) {
    FERRULE_RETURN_IF_ERROR(check_hello(mine, rank, value));
    met.peers.push_back(decode_hello(rank, value)->peer);
    return Status();
  };
  gathering.lost = [&] {
    // The others know of nobody yet; what rank 0 says of itself is in its place as soon as it has come.
    if (request.rank != 0 && met.peers.empty()) {
      const auto zero = store.get(gather_key(gathering, 0), Deadline::after(std::chrono::milliseconds(1)));
      if (zero.ok() && decode_hello(0, *zero).ok()) met.peers.push_back(decode_hello(0, *zero)->peer);
    }
    return look_for_deaths(met);
  };
  // Stores of the caller's may overwrite without a word, so look first.
  const std::string key = gather_key(gathering, request.rank);
  const Result<std::string> taken = store.get(key, Deadline::after(std::chrono::milliseconds(1)));
  if (taken.ok()) return claim_conflict(gathering, mine, *taken);
  const Result<std::vector<std::string>> values = gather(gathering, mine.encode());
  if (values.ok()) return make_membership(request, mine, *values);
  // Our own set was refused if somebody else's value is there.
  const Result<std::string> there = store.get(key, Deadline::after(std::chrono::milliseconds(1)));
  if (there.ok() && *there != mine.encode()) return claim_conflict(gathering, mine, *there);
  return values.status();
}

Status look_for_deaths(const Membership& membership) {
  const auto self = ProcessIdentity::of_this_process();
  const std::string here = host_identity().host;
  for (std::int32_t rank = 0; rank < membership.size(); ++rank) {
    const Peer& peer = membership.peers[static_cast<std::size_t>(rank)];
    const ProcessIdentity process{peer.pid, peer.start_ticks, peer.pid_namespace};
    if (peer.host_id != here || process == self || !ferrule::has_ended(process, self)) continue;
    return Status(
        ErrorCode::peer_lost,
        fmt::format("{} is lost: its process has ended while ranks were meeting", membership.describe(rank)));
  }
  return Status();
}

Exchange make_exchange(std::shared_ptr<Store> store, std::int32_t rank, std::int32_t size, Deadline deadline,
                       std::function<Status()> lost) {
  return [store = std::move(store), rank, size, deadline, lost = std::move(lost), turn = 0](
             std::string_view name, std::string_view mine) mutable {
    Gathering gathering{*store, fmt::format("exchange/{}/{}", turn++, name), rank, size, deadline, {}};
    gathering.lost = lost;
    return gather(gathering, std::string(mine));
  };
}

}  // namespace ferrule::rendezvous
