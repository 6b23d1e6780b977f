// The UCX transport: eager active messages on one worker, receives as views of UCX's own fragments.
//
// Three files implement it: ucx_transport.cpp (post, progress, cancel), peer_links.cpp (connect, notice who
// is gone, leave) and ucx_receive.cpp (UCX's callbacks for arriving messages).
#pragma once

#include <sched.h>
#include <ucp/api/ucp.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.hpp"
#include "transport/inbox.hpp"
#include "transport/registry.hpp"
#include "transport/ucx/abort_guard.hpp"
#include "transport/ucx/link_message.hpp"
#include "transport/ucx/peer_address.hpp"
#include "transport/ucx/ucx_resources.hpp"
#include "transport/ucx/wake_set.hpp"
#include "transport/vigil.hpp"

namespace ferrule::transport::ucx {

class UcxTransport final : public Transport {
 public:
  UcxTransport(const Membership& membership, PathChoice choice, Context context, Worker worker);
  ~UcxTransport() override;
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  /// Installs the callbacks and the descriptors to sleep on.
  Status prepare();
  /// What else tells of deaths: this process's sign for its peers, and the vigil, where ranks keep one.
  Status watch_by(DeathSign sign, std::unique_ptr<Vigil> vigil);
  /// Connects to everybody and waits until each rank has said hello. addresses[r] is what rank r exchanged.
  Status connect(std::span<const PeerAddress> addresses, Deadline deadline);

  std::string_view name() const override { return "ucx"; }
  std::int32_t rank() const override { return membership_.rank; }
  std::int32_t size() const override { return membership_.size(); }
  Caps caps() const override;
  Counters counters() const override { return counters_; }
  Status post(const Batch& batch) override;
  Status progress(Deadline deadline) override;
  void wake() override;
  void cancel(Recv& recv) override { inbox_.cancel(recv); }
  void cancel(Send& send) override;
  void retire(std::uint32_t sequence) override { inbox_.retire(sequence); }
  void set_control_handler(ControlHandler handler) override {
    inbox_.set_control_handler(std::move(handler));
  }

 private:
  using Time = Deadline::Clock::time_point;

  /// A send that UCX works on. Holds what must live until UCX is done with it.
  struct SendOp {
    HeaderBytes header;
    UcxTransport* transport = nullptr;
    std::int32_t peer = -1;
    Send* send = nullptr;  ///< null once the caller has taken it back
  };

  struct Link {
    UcxTransport* transport = nullptr;
    std::int32_t peer = -1;
    std::string address;          ///< UCX's, of its worker
    ucp_ep_h endpoint = nullptr;  ///< null before it is opened and after it is closed
    bool greeted = false;         ///< its hello has arrived
    bool left = false;            ///< its farewell has arrived
    std::uint64_t sent = 0;       ///< messages to it
    std::uint64_t received = 0;   ///< messages of it
    std::uint64_t announced = 0;  ///< by its farewell: how many to receive. The farewell may overtake the
                                  ///< last of them, because UCX spreads long messages over several paths.
    LinkMessage hello;            ///< ours to it; must live while UCX sends it
    LinkMessage farewell;         ///< likewise
    ucs_status_t error = UCS_OK;  ///< what UCX reported of the endpoint
    std::optional<Time> suspect;  ///< after an error: when it counts as lost, unless its farewell comes first
    bool complete() const { return left && received >= announced; }
    Status gone;  ///< an error when nothing can be exchanged with this peer any more
  };

  Link& link(std::int32_t peer) { return links_[static_cast<std::size_t>(peer)]; }

  // ucx_transport.cpp
  Status check_sends(std::span<Send* const> sends) const;
  void start(Send& send);
  SendOp& take_op();
  void finish(SendOp& op, ucs_status_t status);
  Status send_error(std::int32_t peer, ucs_status_t status);
  std::uint64_t ended() const { return ended_sends_ + inbox_.ended(); }
  /// Calls UCX, under guard_ while there is one. Nothing to destroy may stand between this and UCX.
  template <class Call>
  void call_ucx(const Call& ucx) {
    if (abandoned_) return;
    if (guard_ == nullptr) {
      ucx();
    } else if (!guard_->call(ucx)) {
      give_up_on_ucx();
    }
  }
  bool progress_ucx();
  void advance();
  void sleep(Deadline deadline);
  /// Drives communication until reached() holds (true) or the deadline passes (false). Polls for some 100 us
  /// before it sleeps. Between polls it offers the core to others: after each where ranks share cores, else
  /// seldom, since asking costs more than a poll. Where others keep the core (kept_), it sleeps at once
  /// instead: a sleeper that has a message is let in before them.
  template <class Reached>
  bool drive_until(Deadline deadline, const Reached& reached) {
    const bool shares_cores = ranks_a_core_ > 1;
    const int offers = shares_cores ? 200 : 20;
    const int polls = shares_cores ? 1 : 64;
    for (;;) {
      Deadline::Clock::time_point before{};
      for (int offer = 0; offer < offers; ++offer) {
        for (int poll = 0; poll < polls; ++poll) {
          advance();
          if (reached()) return true;
        }
        const auto now = Deadline::Clock::now();
        if (now >= deadline.when()) return false;
        if (offer > 0 && now - before > kept_) others_until_ = now + kBelieved;
        if (now < others_until_) break;
        before = now;
        ::sched_yield();
      }
      sleep(deadline);
    }
  }
  static void on_sent(void* request, ucs_status_t status, void* op);

  // peer_links.cpp
  Status connect_all(std::span<const PeerAddress> addresses, Deadline deadline);
  void give_up_on_ucx();
  Status greet(Link& to);
  Status create_endpoint(Link& to);
  Status watch(std::int32_t peer, const PeerAddress& there, const ProcessIdentity& self);
  Status wait_for_hellos(Deadline deadline);
  LinkMessage link_message(const Link& to, LinkEvent event) const;
  void send_link_message(Link& to, const LinkMessage& message);
  void look_at_news();
  void look_at_suspects();
  void look_for_deaths(Deadline deadline);
  void expect_end(std::int32_t peer);
  void note_end(std::int32_t peer);
  bool is_raw(const Link& to) const { return connecting_ && !to.greeted; }
  void lose(Link& peer, std::string_view why);
  void close_link(Link& peer, Status why);
  void end_receives(const Link& from);
  void fail(Status status);
  void keep(ucs_status_ptr_t request);
  void reap();
  void leave();
  void settle_connections();
  void say_farewell();
  void abandon();
  static void on_endpoint_error(void* link, ucp_ep_h endpoint, ucs_status_t status);

  // ucx_receive.cpp
  Status install_handlers();
  ucs_status_t take_message(std::span<const std::byte> header_bytes, std::span<const std::byte> payload,
                            std::uint64_t attributes);
  void take_link_message(std::span<const std::byte> bytes);
  static ucs_status_t on_message(void* transport, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* param);
  static ucs_status_t on_link_message(void* transport, const void* header, std::size_t header_bytes,
                                      void* data, std::size_t bytes, const ucp_am_recv_param_t* param);
  static void release_payload(void* transport, void* payload);

  Membership membership_;
  double ranks_a_core_ = 1;  ///< of this host; at least 1
  /// An offered core that comes back later than this was taken by a program other than a rank, ...
  Deadline::Clock::duration kept_;
  /// ... and for so long it is not offered again.
  static constexpr std::chrono::milliseconds kBelieved{500};
  Deadline::Clock::time_point others_until_{};
  PathChoice choice_;
  Context context_;  // destroyed after everything made from it
  Worker worker_;
  WakeSet wake_set_;
  Inbox inbox_;  // holds views of the worker's memory
  std::vector<Link> links_;
  std::deque<SendOp> ops_;  ///< never shrinks: addresses stay valid
  std::vector<SendOp*> free_ops_;
  Counters counters_;
  Status fatal_;
  std::vector<std::int32_t> news_;  ///< peers of which a callback has reported something; looked at outside
  std::vector<void*> requests_;     ///< UCX requests that nobody waits for, freed when complete
  std::uint64_t ended_sends_ = 0;
  std::uint32_t polls_ = 0;
  std::uint32_t busy_rounds_ = 0;  ///< how often in a row UCX would not let us sleep
  std::int32_t suspects_ = 0;
  DeathSign sign_;
  std::unique_ptr<Vigil> vigil_;
  std::unique_ptr<AbortGuard> guard_;  ///< while connections are new, and while this rank leaves
  Deadline guarded_until_ = Deadline::never();
  bool connecting_ = false;  ///< connections are being made: UCX must not meet the dead, see peer_links.cpp
  bool abandoned_ = false;   ///< a rank has died meanwhile: UCX is not touched any more
  const void* offered_ = nullptr;   ///< payload that a running callback was offered; still UCX's
  bool declined_ = false;           ///< it was released before the callback returned
  bool told_of_strangers_ = false;  ///< once is enough: they may send as much as they like
  std::atomic<bool> woken_ = false;
};

}  // namespace ferrule::transport::ucx
