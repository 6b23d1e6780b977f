// A communicator: one rank's membership of a group, and the queue of its collectives.
//
// Collectives run one after another, in the order of their calls. Whoever waits for one drives communication
// itself; when nobody waits, a progress thread does (started by the first asynchronous call). One thread at a
// time owns the transport.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "communicator/agreement.hpp"
#include "communicator/control.hpp"
#include "communicator/identity_check.hpp"
#include "communicator/point_to_point.hpp"
#include "communicator/roll_call.hpp"
#include "communicator/tuning.hpp"
#include "communicator/weights.hpp"
#include "communicator/work.hpp"
#include "executor/run.hpp"
#include "ferrule/status.hpp"
#include "plan/plan_cache.hpp"
#include "transport/registry.hpp"

namespace ferrule::communicator {

struct Lineage;

/// Where a communicator comes from: see lineage.hpp.
struct Descent {
  std::shared_ptr<Lineage> lineage;
  std::vector<std::int32_t> root_ranks;  ///< by rank: which rank of the lineage's first communicator it is
  std::uint32_t generation = 0;          ///< shrinks since that one
  std::uint32_t reset_before = 0;        ///< residuals that an earlier generation used last start at zero
};

/// What holds for all collectives of a communicator.
struct Defaults {
  std::string codec = "none";
  std::string algorithm = "auto";
  std::string topology;  ///< empty: ranks of a host are a node
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
  std::size_t slice_bytes = 0;         ///< 0: the transport's best
  std::uint32_t slices_in_flight = 0;  ///< 0: the transport's
  std::size_t min_bytes = 16 << 10;    ///< the default codec leaves smaller tensors raw
  std::chrono::nanoseconds stall_warn = std::chrono::seconds(10);
  TuningSource tuning;
  std::uint32_t threads = 1;  ///< that encode and decode
  std::string trace;          ///< file; empty: none
  bool checksum = false;
  bool check_identity = false;       ///< compare a hash of each result across ranks
  bool check_nonfinite = false;      ///< refuse NaN and Inf in what a rank puts in
  bool disable = false;              ///< nothing is compressed, whatever the calls say
  std::uint32_t first_sequence = 0;  ///< sequence numbers wrap; for the test of that
};

/// Arguments of one collective. Empty texts: the defaults.
struct Call {
  collectives::Collective collective = collectives::Collective::all_reduce;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::string_view codec;
  std::string_view algorithm;
  residual::Residual* residual = nullptr;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t tensor = 0;
  std::optional<double> weight;  ///< makes it a weighted mean: all ranks give one, op is avg
  std::chrono::nanoseconds timeout{0};
  std::int32_t root = 0;                          ///< where the collective has one
  std::span<const std::size_t> counts = {};       ///< as plan::Parts has them
  std::span<const std::size_t> recv_counts = {};  ///< as plan::Parts has them
  bool on_device = false;                         ///< send, recv and residual are in the memory of one device
  void* stream = nullptr;  ///< of that device: what is in it is done before, what comes into it waits
};

/// A send or a receive between two ranks.
struct TransferCall {
  bool sends = false;
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::u8;
  std::int32_t peer = 0;
  std::uint32_t tag = 0;
  std::chrono::nanoseconds timeout{0};
};

/// What a call would become.
struct Preview {
  std::string codec;  ///< canonical text; "none" where compression is left off
  std::string_view algorithm;
  std::uint32_t slice_count = 0;
  std::uint32_t slices_in_flight = 0;  ///< never more than there are
  double seconds = 0;                  ///< what the cost model expects
};

struct Stats {
  std::uint64_t collectives = 0;
  executor::Times times;
  transport::Counters counters;
  std::size_t scratch_bytes = 0;  ///< held now; no total
};

/// Plans that a communicator keeps.
inline constexpr std::size_t kPlans = 4096;

/// Thread safe.
class Communicator {
 public:
  static Result<std::unique_ptr<Communicator>> make(std::unique_ptr<transport::Transport> transport,
                                                    transport::Membership membership, Defaults defaults);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  std::int32_t rank() const { return membership_.rank; }
  std::int32_t size() const { return membership_.size(); }
  const std::string& transport_name() const { return transport_name_; }
  const transport::Membership& membership() const { return membership_; }
  std::chrono::nanoseconds timeout() const { return defaults_.timeout; }
  /// Set once, by whoever makes it.
  void set_descent(Descent descent) { descent_ = std::move(descent); }
  const Descent& descent() const { return descent_; }
  /// How many splits there were before this one.
  std::uint32_t count_split() { return splits_.fetch_add(1); }
  bool is_broken();
  /// What choices go by; the same on all ranks.
  Tuning tuning();
  Stats stats();

  /// What all_reduce would choose for this call, whose buffers are not looked at. All ranks must ask alike:
  /// an `auto:` codec that was not met before is measured.
  Result<Preview> preview(const Call& call);
  /// Checks the arguments and queues the collective. `background`: the progress thread may drive it.
  Result<std::shared_ptr<Work>> start(const Call& call, bool background);
  /// The same for a send or a receive, which runs beside the collectives and in no order with them.
  Result<std::shared_ptr<Work>> start(const TransferCall& call, bool background);
  /// Drives until the work is done or the deadline (`timeout`, and the work goes on). On a device, what comes
  /// into the call's stream afterwards waits for the result: see Work::hold_stream.
  Status wait(Work& work, Deadline until);
  /// Ends all pending and later work with `aborted`.
  void abort();
  /// Drives what is queued to its end, at most the timeout; what is left then is aborted.
  void close();

 private:
  Communicator(std::unique_ptr<transport::Transport> transport, transport::Membership membership,
               Defaults defaults);

  /// Measures, or reads, what choices go by. All ranks, before any other collective.
  Status tune();
  /// Messages as a slow link likes them, where the caller has not said.
  void fit_slices();
  /// Knows what the codec of an `auto:` text costs; measures it the first time, all ranks at once.
  Status know_cost(std::string_view codec_text);
  void leave_out_of_stats(const Stats& before);

  // On a device, in device.cpp.
  Status prepare_device(const Call& call, Work& work);
  Result<int> find_device(const Call& call) const;
  static Status check_residual_place(const Call& call);
  Status check_kernels(const plan::Plan& plan) const;
  /// Waits for the work's input, then copies from the device. For checks that read every element: slow.
  Result<std::vector<std::byte>> fetch(const Work& work, const void* data, std::size_t elements) const;

  Result<plan::Request> resolve(const Call& call);
  Result<const collectives::AlgorithmDesc*> resolve_algorithm(const Call& call) const;
  Result<std::shared_ptr<const codec::Codec>> find_codec(std::string_view text);
  std::string_view codec_text(const Call& call) const;
  bool pays(const plan::Request& request);
  plan::Situation situation_of(const plan::Request& request) const;
  void log_break_even(const plan::Request& request) const;
  Result<std::shared_ptr<const plan::Plan>> find_plan(const plan::Request& request, bool& known);
  bool may_run_ahead(const plan::Plan& plan);

  /// Drives the oldest work; true when it is done. Called by the owner of the transport.
  bool drive(Work& work, Deadline until);
  Status drive_to_end(Work& work, Deadline until, bool& done);
  Status begin(Work& work);
  Status take_residual(Work& work);
  Result<bool> agree(Work& work, Deadline until);
  Status settle_disagreement(const Work& work, const Status& seen);
  void hear_why(const Work& work, const Status& status);
  void fail(Work& work, const Status& why);
  void succeed(Work& work);
  Result<bool> advance(Work& work, Deadline until);
  Result<bool> check(Work& work, Deadline until);
  Result<bool> weigh(Work& work, Deadline until);
  Status start_running(Work& work);
  Status scale_input(Work& work);
  Status name_collective(const Work& work, const Status& status) const;
  static void note_movement(Work& work, Deadline::Clock::time_point when);
  Status refuse_nonfinite(const Work& work) const;
  Deadline probe_at(const Work& work) const;
  void call_the_roll(Work& work);
  void forget(const Work& work);
  Status timed_out(const Work& work) const;
  std::string missing_ranks(const Work& work) const;
  void take_word(const ControlMessage& message);
  /// Takes up new transfers and moves those under way; true if one has ended.
  bool move_transfers();
  void drive_transfers(Deadline until);
  void fail_transfers(const Status& why);
  void call_owner();
  void take_ownership_and_drive(std::unique_lock<std::mutex>& lock, Deadline until);
  void run_progress_thread();
  void add_times(const executor::Times& times);
  void end(Work& work);

  std::unique_ptr<transport::Transport> transport_;
  const transport::Membership membership_;
  const Defaults defaults_;
  const std::string transport_name_;
  Descent descent_;
  std::atomic<std::uint32_t> splits_{0};

  // Under mutex_.
  plan::Environment environment_;
  Tuning tuning_;
  std::mutex mutex_;
  std::condition_variable changed_;   ///< for those who wait for work
  std::condition_variable progress_;  ///< for the progress thread
  std::deque<std::shared_ptr<Work>> queue_;
  std::vector<std::shared_ptr<Work>> new_transfers_;
  bool owned_ = false;
  bool closing_ = false;
  std::uint32_t next_sequence_ = 0;
  std::size_t ahead_bytes_ = 0;     ///< what ranks may be ahead of each other: see may_run_ahead()
  transport::Counters calibrated_;  ///< what calibration has moved: no part of the statistics
  std::set<std::string, std::less<>> break_even_told_;
  Status broken_;  ///< why nothing more can be done; ok while all is well
  std::map<std::string, std::shared_ptr<const codec::Codec>, std::less<>> codecs_;
  plan::PlanCache plans_;
  Stats stats_;
  std::thread progress_thread_;

  // The owner's.
  std::atomic<bool> interrupt_{false};
  std::atomic<bool> abort_requested_{false};
  bool in_collective_ = false;               ///< the owner drives one; else transfers alone
  std::atomic<std::uint32_t> transfers_{0};  ///< that have not ended
  std::atomic<bool> has_new_transfers_{false};
  residual::Spares spare_residuals_;
  HugeBuffer scaled_;  ///< this rank's share of a weighted mean
  Trace trace_;
  executor::Run run_;
  int device_ = -1;                             // of backend_; under mutex_
  std::unique_ptr<executor::Backend> backend_;  // made by the first call on a device, under mutex_; used by
                                                // the owner. Ends before the messages that run_ holds for it.
  ControlPlane control_;
  PointToPoint point_to_point_{*transport_, control_, membership_};
  Agreement agreement_;
  RollCall roll_{control_, membership_};
  IdentityCheck identity_{control_, membership_};
  WeightExchange weights_{control_, membership_};
};

}  // namespace ferrule::communicator
