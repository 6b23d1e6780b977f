// The matching engine under any stream of messages, receives, cancellations and retirements. No message may
// be lost, released twice or given to the wrong receive; the limits on what a peer may queue must hold.
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "fuzz/input.hpp"
#include "fuzz/require.hpp"
#include "transport/inbox.hpp"

namespace {

using namespace ferrule::transport;
using ferrule::Status;
using ferrule::fuzz::Input;

constexpr std::int32_t kRanks = 4;
constexpr std::uint64_t kCommunicator = 0x77;
constexpr InboxLimits kLimits{6, 200};
constexpr std::size_t kMostSteps = 300;

struct Arrival {
  int releases = 0;
  bool withdrawn = false;
  std::vector<std::byte> payload;
};

void release(void*, void* handle) { ++static_cast<Arrival*>(handle)->releases; }
bool claim(void* handle) { return !static_cast<Arrival*>(handle)->withdrawn; }

Membership four_ranks() {
  Membership made;
  made.communicator = kCommunicator;
  for (int i = 0; i < kRanks; ++i) made.peers.push_back({"host", "same", 1000 + i, "127.0.0.1"});
  return made;
}

class Session {
 public:
  explicit Session(Input& input) : input_(input), base_(input.take<std::uint32_t>()) {
    inbox_.set_control_handler([this](const MessageHeader& header, std::span<const std::byte> payload) {
      FERRULE_REQUIRE(header.kind == MessageKind::control && header.payload_bytes == payload.size());
      ++controls_;
    });
  }

  void run() {
    for (std::size_t i = 0; i < kMostSteps && !input_.empty(); ++i) step();
    for (const auto& recv : recvs_) inbox_.cancel(*recv);
    for (const auto& recv : recvs_) check_ended(*recv);
    for (std::int32_t peer = 0; peer < kRanks; ++peer) FERRULE_REQUIRE(inbox_.posted(peer) == 0);
  }
  /// To be asked when the session's inbox and receives are gone.
  static void check_released(const std::deque<Arrival>& arrivals) {
    for (const Arrival& arrival : arrivals) FERRULE_REQUIRE(arrival.releases == 1);
  }
  std::deque<Arrival> arrivals;

 private:
  void step() {
    switch (input_.pick(10)) {
      case 0:
      case 1:
      case 2:
        return post();
      case 3:
        if (!recvs_.empty()) inbox_.cancel(*recvs_[input_.pick(static_cast<std::uint32_t>(recvs_.size()))]);
        return;
      case 4:
        return inbox_.retire(any_sequence());
      case 5:
        if (!arrivals.empty()) {
          arrivals[input_.pick(static_cast<std::uint32_t>(arrivals.size()))].withdrawn = true;
        }
        return;
      case 6:
        (void)inbox_.dispatch_control();
        FERRULE_REQUIRE(!inbox_.control_waiting());
        return;
      case 7:
        if (input_.pick(8) == 0) {
          (void)inbox_.fail(static_cast<std::int32_t>(input_.pick(kRanks)),
                            Status(ferrule::ErrorCode::peer_lost, "gone"));
        }
        return;
      default:
        return deliver();
    }
  }

  // A few neighbours, so that messages and receives meet; anywhere on the circle now and then.
  std::uint32_t any_sequence() {
    const std::uint32_t near = input_.take<std::uint8_t>();
    return near == 255 ? input_.take<std::uint32_t>() : base_ + near % 5;
  }
  std::uint64_t any_plan() { return input_.pick(16) == 0 ? 6 : 5; }
  std::uint32_t any_payload_bytes() { return input_.pick(16) == 0 ? input_.take<std::uint8_t>() : 16; }

  void post() {
    recvs_.push_back(std::make_unique<Recv>());
    Recv& recv = *recvs_.back();
    recv.peer = static_cast<std::int32_t>(input_.pick(kRanks + 2)) - 1;
    recv.sequence = any_sequence();
    recv.slice = input_.pick(3);
    recv.ordinal = input_.pick(3);
    recv.plan = any_plan();
    recv.bytes = any_payload_bytes();
    Recv* const list[] = {&recv};
    if (inbox_.check(list).ok()) {
      inbox_.post(recv);
    } else {
      recvs_.pop_back();
    }
  }

  void deliver() {
    MessageHeader header;
    header.kind = input_.pick(4) == 0 ? MessageKind::control : MessageKind::data;
    header.control_type = static_cast<std::uint8_t>(input_.pick(4));
    header.communicator = input_.pick(32) == 0 ? input_.take<std::uint64_t>() : kCommunicator;
    header.source =
        input_.pick(32) == 0 ? input_.take<std::int32_t>() : static_cast<std::int32_t>(input_.pick(kRanks));
    header.sequence = any_sequence();
    header.slice = input_.pick(3);
    header.ordinal = input_.pick(3);
    header.plan = any_plan();
    header.payload_bytes = input_.pick(32) == 0 ? input_.take<std::uint32_t>() : any_payload_bytes();
    Arrival& arrival = arrivals.emplace_back();
    arrival.payload.resize(input_.pick(32) == 0 ? input_.take<std::uint8_t>()
                                                : std::min<std::uint32_t>(header.payload_bytes, 4096));
    for (std::byte& byte : arrival.payload) byte = static_cast<std::byte>(arrivals.size());
    if (input_.pick(8) == 0) header.payload_checksum = payload_checksum(arrival.payload);
    if (input_.pick(32) == 0) header.payload_checksum = input_.take<std::uint32_t>();
    const std::int32_t from = input_.pick(8) == 0 ? static_cast<std::int32_t>(input_.pick(kRanks)) : -1;
    (void)inbox_.deliver({header, arrival.payload, release, nullptr, &arrival}, from);
    FERRULE_REQUIRE(inbox_.queued() <= std::size_t{kLimits.messages} * kRanks);
  }

  static void check_ended(const Recv& recv) {
    FERRULE_REQUIRE(recv.done);
    if (!recv.status.ok()) return;
    const MessageHeader& header = recv.message.header();
    FERRULE_REQUIRE(header.kind == MessageKind::data && header.communicator == kCommunicator);
    FERRULE_REQUIRE(header.source == recv.peer && header.sequence == recv.sequence);
    FERRULE_REQUIRE(header.slice == recv.slice && header.ordinal == recv.ordinal && header.plan == recv.plan);
    FERRULE_REQUIRE(recv.message.payload().size() == recv.bytes);
    const auto* arrival = static_cast<const Arrival*>(recv.message.handle());
    FERRULE_REQUIRE(arrival->releases == 0 && arrival->payload.data() == recv.message.payload().data());
    FERRULE_REQUIRE(header.payload_checksum == 0 ||
                    header.payload_checksum == payload_checksum(recv.message.payload()));
  }

  Input& input_;
  std::uint32_t base_;
  int controls_ = 0;
  Membership membership_ = four_ranks();
  std::vector<std::unique_ptr<Recv>> recvs_;
  Inbox inbox_{membership_, kLimits, claim};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  Input input(data, bytes);
  std::deque<Arrival> arrivals;
  {
    Session session(input);
    session.run();
    // A deque that is moved keeps its elements where they are.
    arrivals = std::move(session.arrivals);
  }
  Session::check_released(arrivals);
  return 0;
}
