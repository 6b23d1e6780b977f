// The control protocol under any stream of control messages: a rank goes on with the data only if all that it
// waited for said the same, takes its result for right only if all had its hash, and sends within the
// protocol's limits.
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "communicator/agreement.hpp"
#include "communicator/control.hpp"
#include "communicator/identity_check.hpp"
#include "communicator/roll_call.hpp"
#include "communicator/weights.hpp"
#include "fuzz/input.hpp"
#include "fuzz/require.hpp"
#include "support/silent_transport.hpp"

namespace {

using namespace ferrule;
using namespace ferrule::communicator;
using ferrule::fuzz::Input;
using transport::MessageHeader;

constexpr std::uint64_t kCommunicator = 0x77;

void check_send(const transport::Send& send, std::int32_t size) {
  FERRULE_REQUIRE(send.peer > 0 && send.peer < size);
  FERRULE_REQUIRE(send.header.kind == transport::MessageKind::control && send.header.source == 0);
  FERRULE_REQUIRE(send.header.communicator == kCommunicator);
  FERRULE_REQUIRE(send.payload.size() <= ControlPlane::kMaxTextBytes);
  FERRULE_REQUIRE(send.header.payload_bytes == send.payload.size());
}

std::shared_ptr<const plan::Plan> plan_of(std::size_t count) {
  auto made = codec::make_codec("none");
  const std::shared_ptr<const codec::Codec> raw = std::move(*made);
  plan::Request request;
  request.count = count;
  request.codec = raw;
  plan::Environment environment;
  environment.world = 4;
  return *plan::Plan::make(request, environment, raw);
}

transport::Membership ranks(std::int32_t size) {
  transport::Membership made;
  made.communicator = kCommunicator;
  for (std::int32_t i = 0; i < size; ++i) made.peers.push_back({"host", "same", 1000 + i, "127.0.0.1"});
  return made;
}

class Session {
 public:
  explicit Session(Input& input)
      : input_(input),
        membership_(ranks(2 + static_cast<std::int32_t>(input.pick(6)))),
        sequence_(input.take<std::uint32_t>()),
        wire_(membership_.size()),
        control_(wire_, kCommunicator, [this](const ControlMessage& message) { hand_on(message); }),
        agreement_(control_, membership_, sequence_),
        identity_check_(control_, membership_),
        weights_(control_, membership_),
        roll_call_(control_, membership_) {
    wire_.on_send = [this](const transport::Send& send) { check_send(send, membership_.size()); };
  }

  void run() {
    begin();
    while (!input_.empty()) step();
    control_.flush(Deadline::after(std::chrono::seconds(1)));
  }

 private:
  void begin() {
    static const std::shared_ptr<const plan::Plan> plans[] = {plan_of(1000), plan_of(1001)};
    const auto& plan = input_.choose(plans);
    intent_ = {sequence_, plan->fingerprint(), plan, {}, input_.pick(4) == 0};
    agreement_.begin(intent_);
    roll_call_.begin(sequence_);
    identity_check_.begin("all_reduce", sequence_, intent_.identity);
    weights_.begin(sequence_, 1.0);
  }

  void hand_on(const ControlMessage& message) {
    switch (message.type) {
      case ControlType::agree:
      case ControlType::failed:
        return agreement_.take(message);
      case ControlType::hash:
        return identity_check_.take(message);
      case ControlType::weights:
        return weights_.take(message);
      case ControlType::ask:
      case ControlType::here:
      case ControlType::missing:
        return roll_call_.take(message);
      case ControlType::offer:
      case ControlType::wants:
      case ControlType::piece:
      case ControlType::took:
      case ControlType::refuse:
        return;  // of sends and receives, which have no part in this
    }
  }

  void step() {
    switch (input_.pick(11)) {
      case 0: {
        const auto agreed = agreement_.step();
        if (agreed.ok() && *agreed && !intent_.agreed_before) check_all_said(ControlType::agree);
        return check_error(agreed);
      }
      case 1:
        agreement_.finish(sequence_);
        weights_.finish(sequence_);
        identity_check_.finish(sequence_++);
        return begin();
      case 2:
        if (input_.pick(4) == 0) agreement_.ask_all();
        return control_.reap();
      case 3: {
        const auto equal = identity_check_.step();
        if (equal.ok() && *equal) check_all_said(ControlType::hash);
        return check_error(equal);
      }
      case 4: {
        const auto weighed = weights_.step();
        if (weighed.ok() && *weighed) FERRULE_REQUIRE(weights_.sum() > 0);
        return check_error(weighed);
      }
      case 5:
        if (input_.flag()) roll_call_.start();
        if (roll_call_.step()) (void)roll_call_.missing_on_hosts();
        (void)roll_call_.arrived();
        return;
      default:
        return arrive();
    }
  }

  static void check_error(const Result<bool>& result) {
    if (!result.ok()) FERRULE_REQUIRE(!result.status().ok() && !result.status().text().empty());
  }

  void arrive() {
    MessageHeader header;
    header.kind = transport::MessageKind::control;
    header.communicator = kCommunicator;
    header.control_type = static_cast<std::uint8_t>(input_.pick(4) == 0 ? input_.pick(9) : 1);
    header.source =
        1 + static_cast<std::int32_t>(input_.pick(static_cast<std::uint32_t>(membership_.size() - 1)));
    const std::uint32_t near = input_.pick(256);
    header.sequence = near == 255 ? input_.take<std::uint32_t>() : sequence_ + near % 4 - 1;
    header.slice = input_.pick(4) == 0 ? input_.take<std::uint32_t>() : input_.pick(3);
    header.plan = input_.pick(4) == 0 ? input_.take<std::uint64_t>() : intent_.identity;
    header.chunk = input_.pick(4) == 0 ? input_.pick(16) : 1;
    const std::string_view text =
        input_.pick(4) == 0 ? input_.text(input_.pick(256)) : intent_.plan->descriptor();
    said_[header.sequence].insert(
        {header.control_type, header.source, header.slice, header.plan, header.chunk == 1});
    wire_.arrive(header, text);
    check_failure(header.sequence);
  }

  void check_failure(std::uint32_t sequence) const {
    const auto failure = agreement_.failure_of(sequence);
    if (failure.has_value()) FERRULE_REQUIRE(!failure->ok());
  }

  // In every round the rank at that distance has said what this rank says.
  void check_all_said(ControlType type) const {
    const auto found = said_.find(sequence_);
    FERRULE_REQUIRE(found != said_.end());
    for (std::uint32_t round = 0; (1 << round) < membership_.size(); ++round) {
      const std::int32_t source = membership_.size() - (1 << round);
      const auto said = [&](bool equal) {
        return found->second.contains(
            {static_cast<std::uint8_t>(type), source, round, intent_.identity, equal});
      };
      // Only a hash says what its sender has heard.
      FERRULE_REQUIRE(said(true) || (type == ControlType::agree && said(false)));
    }
  }

  Input& input_;
  transport::Membership membership_;
  std::uint32_t sequence_;
  testing::SilentTransport wire_;
  ControlPlane control_;
  Agreement agreement_;
  IdentityCheck identity_check_;
  WeightExchange weights_;
  RollCall roll_call_;
  Intent intent_;
  /// What came in, by sequence: type, source, round, identity, and whether its sender has heard of equals
  /// only.
  using Word = std::tuple<std::uint8_t, std::int32_t, std::uint32_t, std::uint64_t, bool>;
  std::map<std::uint32_t, std::set<Word>> said_;
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  ::setenv("FERRULE_DEBUG_FILE", "/dev/null", 1);  // warnings of hostile messages would be all that it does
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  Input input(data, bytes);
  Session session(input);
  session.run();
  return 0;
}
