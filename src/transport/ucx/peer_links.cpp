// The connections to the peers: how they begin, how this rank notices that one is gone, how it leaves.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "base/log.hpp"
#include "transport/ucx/am_ids.hpp"
#include "transport/ucx/ucx_transport.hpp"

namespace ferrule::transport::ucx {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// After an endpoint error, for the farewell of a peer that leaves: it may come by another path.
constexpr milliseconds kFarewellGrace{200};
/// From a failed connection to the end of the process that it should have led to.
constexpr milliseconds kDeathGrace{500};
/// For half-made connections when connecting has failed; only a silent peer takes all of it.
constexpr seconds kSettleLimit{1};
/// For the last messages of this rank to leave, when it leaves.
constexpr seconds kFlushLimit{2};
constexpr seconds kCloseLimit{2};
/// From connecting on: until the last messages about connections have certainly arrived.
constexpr seconds kGuarded{10};
/// Messages of a process that has ended are still in its queues; this is more than they hold.
constexpr int kDrainPolls = 4096;

}  // namespace

// ---- connecting

/// One side of each pair opens the connection, the other answers on it: UCX 1.13 can abort the process when
/// two TCP connections of the same pair cross and one of the ranks dies at that moment.
///
/// It can also abort when a rank dies before its connection is made (a wireup message is then still queued,
/// and an assertion in ucp_request.c does not expect it). So while connections are made, every look at UCX
/// comes after a look for signs of death, and from the first death on UCX is not called again at all: not to
/// send, not to close, not even to be destroyed. What dies between the two looks is left to a guard.
Status UcxTransport::connect(std::span<const PeerAddress> addresses, Deadline deadline) {
  connecting_ = true;
  guard_ = std::make_unique<AbortGuard>();
  auto status = connect_all(addresses, deadline);
  abandoned_ = abandoned_ || (!status.ok() && status.code() == ErrorCode::peer_lost);
  connecting_ = false;
  wake_set_.forget_signs();
  guarded_until_ = Deadline::after(kGuarded);
  return status;
}

/// Of an abort() of UCX the reason is a rank that has gone, of which the signs come at once.
void UcxTransport::give_up_on_ucx() {
  abandoned_ = true;
  const auto grace = Deadline::after(kDeathGrace);
  while (fatal_.ok() && !grace.passed()) look_for_deaths(grace);
  fail({ErrorCode::peer_lost,
        fmt::format("UCX gave up on {} while connections were new: a rank must have gone, or have lost its "
                    "network, but it is not known which",
                    membership_.describe(rank()))});
  for (auto& to : links_) close_link(to, fatal_);
  for (auto& op : ops_) {
    if (op.send != nullptr) finish(op, UCS_ERR_CANCELED);
  }
}

Status UcxTransport::connect_all(std::span<const PeerAddress> addresses, Deadline deadline) {
  const auto& self = addresses[static_cast<std::size_t>(rank())].process;
  for (auto& to : links_) {
    if (to.peer == rank()) continue;
    const auto& address = addresses[static_cast<std::size_t>(to.peer)];
    to.address = address.worker;
    FERRULE_RETURN_IF_ERROR(watch(to.peer, address, self));
  }
  for (auto& to : links_) {
    look_for_deaths(Deadline::after(seconds(0)));
    FERRULE_RETURN_IF_ERROR(fatal_);
    if (to.peer < rank()) FERRULE_RETURN_IF_ERROR(greet(to));
  }
  return wait_for_hellos(deadline);
}

Status UcxTransport::greet(Link& to) {
  FERRULE_RETURN_IF_ERROR(create_endpoint(to));
  to.hello = link_message(to, LinkEvent::hello);
  send_link_message(to, to.hello);
  return {};
}

Status UcxTransport::create_endpoint(Link& to) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(to.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_endpoint_error;
  params.err_handler.arg = &to;
  ucs_status_t status = UCS_ERR_ENDPOINT_TIMEOUT;
  call_ucx([&] { status = ucp_ep_create(worker_.get(), &params, &to.endpoint); });
  if (status == UCS_OK) return {};
  to.endpoint = nullptr;
  if (abandoned_) return fatal_;
  // The death of its process is a better reason than UCX's, but a dying process gives up its memory first.
  const auto grace = Deadline::after(kDeathGrace);
  while (fatal_.ok() && !grace.passed()) look_for_deaths(grace);
  FERRULE_RETURN_IF_ERROR(fatal_);
  return ucx_error(fmt::format("connecting to {} (transports: {})", membership_.describe(to.peer),
                               choice_.tls.empty() ? "all" : std::string_view(choice_.tls)),
                   status);
}

Status UcxTransport::watch_by(DeathSign sign, std::unique_ptr<Vigil> vigil) {
  sign_ = std::move(sign);
  vigil_ = std::move(vigil);
  return vigil_ ? wake_set_.add_news(vigil_->news()) : Status();
}

Status UcxTransport::watch(std::int32_t peer, const PeerAddress& theirs, const ProcessIdentity& self) {
  const ProcessIdentity& process = theirs.process;
  const auto& here = membership_.peers[static_cast<std::size_t>(rank())];
  const auto& there = membership_.peers[static_cast<std::size_t>(peer)];
  if (process == self || here.host_id != there.host_id) return {};
  const auto watch = watch_process(process, self);
  if (watch.state == WatchState::watching) {
    FERRULE_RETURN_IF_ERROR(wake_set_.add_process(watch.descriptor, peer));
    auto sign = watch_sign(process, theirs.death_sign, self);
    return sign ? wake_set_.add_sign(std::move(sign), peer) : Status();
  }
  if (watch.state == WatchState::already_gone) {
    return {ErrorCode::peer_lost,
            fmt::format("{} ended before it was connected", membership_.describe(peer))};
  }
  log::info("the death of {} cannot be watched for; UCX's keepalive has to notice it",
            membership_.describe(peer));
  return {};
}

Status UcxTransport::wait_for_hellos(Deadline deadline) {
  const auto missing = [&](const Link& from) {
    return from.peer != rank() && (!from.greeted || (from.endpoint == nullptr && from.gone.ok()));
  };
  drive_until(deadline, [&] { return !fatal_.ok() || std::none_of(links_.begin(), links_.end(), missing); });
  std::string names;
  for (const auto& from : links_) {
    if (missing(from)) names += (names.empty() ? "" : ", ") + membership_.describe(from.peer);
  }
  if (abandoned_) return fatal_;
  if (names.empty()) return {};  // what else has gone wrong meanwhile, progress() reports
  FERRULE_RETURN_IF_ERROR(fatal_);
  return {ErrorCode::timeout,
          fmt::format("UCX: {} could not connect to {} in time (transports: {}, interface: {}); is it "
                      "running, and does a firewall stand between?",
                      membership_.describe(rank()), names, choice_.tls.empty() ? "all" : choice_.tls,
                      membership_.interface.empty() ? "any" : membership_.interface)};
}

LinkMessage UcxTransport::link_message(const Link& to, LinkEvent event) const {
  LinkMessage message;
  message.event = event;
  message.communicator = membership_.communicator;
  message.source = rank();
  message.destination = to.peer;
  if (event == LinkEvent::farewell) message.messages = to.sent;
  if (membership_.link_key) message.prove(*membership_.link_key);
  return message;
}

void UcxTransport::send_link_message(Link& to, const LinkMessage& message) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  call_ucx(
      [&] { keep(ucp_am_send_nbx(to.endpoint, kLinkId, &message, sizeof(message), nullptr, 0, &param)); });
}

// ---- noticing who is gone

void UcxTransport::on_endpoint_error(void* link, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  auto& failed = *static_cast<Link*>(link);
  failed.error = status;
  failed.transport->news_.push_back(failed.peer);
}

void UcxTransport::look_at_news() {
  for (const auto peer : std::exchange(news_, {})) {
    Link& from = link(peer);
    if (!from.gone.ok()) {
      end_receives(from);  // posted after it was gone
    } else if (from.complete()) {
      close_link(from, {ErrorCode::peer_lost, fmt::format("{} has left", membership_.describe(peer))});
    } else if (from.endpoint == nullptr) {
      if (auto status = greet(from); !status.ok()) fail(std::move(status));
    } else if (from.error != UCS_OK && is_raw(from)) {
      expect_end(peer);
    } else if (from.error != UCS_OK && !from.suspect) {
      from.suspect = Deadline::Clock::now() + kFarewellGrace;
      ++suspects_;
    }
  }
}

void UcxTransport::look_at_suspects() {
  const auto now = Deadline::Clock::now();
  for (auto& peer : links_) {
    if (peer.suspect && now >= *peer.suspect) {
      lose(peer, fmt::format("its connection failed: {} (UCX)", ucs_status_string(peer.error)));
    }
  }
}

void UcxTransport::look_for_deaths(Deadline deadline) {
  auto deaths = wake_set_.sleep(deadline);
  if (!deaths.ok()) return fail(deaths.status());
  // In this order: a sign and the end that it announces may come together, and no end comes twice.
  for (const auto peer : deaths->ended) note_end(peer);
  for (const auto peer : deaths->dying) {
    if (is_raw(link(peer))) expect_end(peer);
  }
  if (!vigil_) return;
  for (const auto peer : vigil_->take()) note_end(peer);
}

/// It looks as if the peer were dying. UCX rests until that is certain, or another's death is: then the peer
/// has only given up because of that one.
void UcxTransport::expect_end(std::int32_t peer) {
  const auto grace = Deadline::after(kDeathGrace);
  while (fatal_.ok() && !grace.passed()) {
    auto deaths = wake_set_.sleep(grace);
    if (!deaths.ok()) return fail(deaths.status());
    for (const auto ended : deaths->ended) note_end(ended);
    if (vigil_) {
      for (const auto ended : vigil_->take()) note_end(ended);
    }
  }
  if (const Link& from = link(peer); from.gone.ok() && from.error != UCS_OK) {
    lose(link(peer), fmt::format("its connection failed: {} (UCX)", ucs_status_string(from.error)));
  }
}

void UcxTransport::note_end(std::int32_t peer) {
  // It may have said farewell before it ended.
  for (int i = 0; i < kDrainPolls && !is_raw(link(peer)) && !link(peer).complete(); ++i) {
    if (!progress_ucx()) break;
  }
  if (!is_raw(link(peer))) look_at_news();
  if (link(peer).gone.ok()) lose(link(peer), "its process has ended");
}

void UcxTransport::lose(Link& peer, std::string_view why) {
  const Status lost(ErrorCode::peer_lost,
                    fmt::format("{} is lost: {}", membership_.describe(peer.peer), why));
  abandoned_ = abandoned_ || connecting_;
  close_link(peer, lost);
  fail(lost);
}

/// Sends to this peer that are not done end with UCX's next progress; receives end now.
void UcxTransport::close_link(Link& peer, Status why) {
  if (!peer.gone.ok()) return;
  peer.gone = std::move(why);
  if (std::exchange(peer.suspect, std::nullopt)) --suspects_;
  end_receives(peer);
  if (peer.endpoint == nullptr || abandoned_) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  call_ucx([&] { keep(ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &param)); });
}

/// A departure harms nobody until something is awaited from the one who left.
void UcxTransport::end_receives(const Link& from) {
  if (inbox_.fail(from.peer, from.gone) > 0) fail(from.gone);
}

void UcxTransport::fail(Status status) {
  if (!fatal_.ok()) return;
  log::info("UCX transport of rank {} failed: {}", rank(), status.text());
  fatal_ = std::move(status);
}

// ---- requests that nobody waits for

void UcxTransport::keep(ucs_status_ptr_t request) {
  // An error here is reported by the endpoint's error callback, too.
  if (UCS_PTR_IS_PTR(request)) requests_.push_back(request);
}

void UcxTransport::reap() {
  std::erase_if(requests_, [](void* request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucp_request_free(request);
    return true;
  });
}

// ---- leaving

void UcxTransport::say_farewell() {
  for (auto& to : links_) {
    if (to.endpoint == nullptr) continue;
    to.farewell = link_message(to, LinkEvent::farewell);
    send_link_message(to, to.farewell);
    ucp_request_param_t param{};
    call_ucx([&] { keep(ucp_ep_flush_nbx(to.endpoint, &param)); });
  }
  drive_until(Deadline::after(kFlushLimit), [&] { return abandoned_ || requests_.empty(); });
}

/// After a failed connect() some connections are half made, and UCX 1.13 can abort this process or the peer's
/// if one is closed in that state. Those that will be made soon are waited for.
void UcxTransport::settle_connections() {
  const auto half_made = [&](const Link& to) {
    return !to.address.empty() && !to.greeted && !to.suspect && to.gone.ok();
  };
  drive_until(Deadline::after(kSettleLimit),
              [&] { return abandoned_ || std::none_of(links_.begin(), links_.end(), half_made); });
}

/// Memory, descriptors and all: once for a communicator that could not be made. Reachable, so that leak
/// checkers know that it is on purpose; never destroyed, not even when the process ends.
void UcxTransport::abandon() {
  struct Remains {
    Context context;
    Worker worker;
    std::vector<Link> links;
    std::deque<SendOp> ops;
    DeathSign sign;  // this process lives: its peers must not take it for dying
  };
  static auto* const graveyard = new std::deque<Remains>();
  static std::mutex mutex;
  inbox_ = Inbox(membership_);  // gives the views of UCX's memory back while it is there
  const std::lock_guard lock(mutex);
  graveyard->push_back(
      {std::move(context_), std::move(worker_), std::move(links_), std::move(ops_), std::move(sign_)});
  log::info("UCX of rank {} is left as it is: a rank has gone while connections were being made", rank());
}

UcxTransport::~UcxTransport() {
  if (guard_ == nullptr) guard_ = std::make_unique<AbortGuard>();  // others may be connecting still, or leave
  if (!abandoned_) leave();
  if (abandoned_) abandon();
}

void UcxTransport::leave() {
  settle_connections();
  for (auto& peer : links_) {
    // Those who may not listen are not waited for.
    if (!peer.greeted || peer.suspect) close_link(peer, {ErrorCode::aborted, "the connection was given up"});
  }
  say_farewell();
  for (auto& peer : links_) close_link(peer, {ErrorCode::aborted, "the transport is closed"});
  if (!drive_until(Deadline::after(kCloseLimit), [&] { return abandoned_ || requests_.empty(); })) {
    log::warn("UCX did not close {} connections of rank {} in time", requests_.size(), rank());
  }
}

}  // namespace ferrule::transport::ucx
