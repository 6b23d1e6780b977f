// Control messages: what ranks tell each other beside the data: "this is what I am about to do", "this
// collective has failed", and the roll call of one that stalls. They travel over the data transport, ahead of
// or between data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ferrule/status.hpp"
#include "transport/transport.hpp"

namespace ferrule::communicator {

enum class ControlType : std::uint8_t {
  agree =
      1,  ///< the sender's plan: header.plan is its identity, the text its descriptor, header.slice the round
  failed = 2,   ///< the collective failed on the sender: header.chunk is the code, the text the reason
  ask = 3,      ///< have you arrived in this collective?
  here = 4,     ///< the answer: yes. Who has not arrived does not answer.
  missing = 5,  ///< the outcome of a roll call, for those who have arrived: the text says who is missing
  hash = 6,  ///< header.plan is a hash of the sender's result, header.slice the round, header.chunk whether
             ///< all that it has heard of so far were equal
  weights = 7,  ///< weights of a mean: header.slice is which, the text their bytes
  // Point to point (point_to_point.hpp). header.sequence is the sender's number of the send.
  offer = 8,   ///< header.plan: bytes, chunk: tag, slice: 1 if the payload is all of them
  wants = 9,   ///< a receive fits: send pieces up to header.plan bytes
  piece = 10,  ///< header.plan: where in the tensor the payload belongs, in bytes
  took = 11,   ///< an offer with its bytes has been used
  refuse = 12  ///< the receive that fits has another length; the text says so
};

/// Errors after which the communicator is as good as before: nothing was half done.
constexpr bool survives(ErrorCode code) {
  return code == ErrorCode::mismatch || code == ErrorCode::invalid_argument;
}

/// A control message that has come in.
struct ControlMessage {
  ControlType type;
  std::int32_t source;
  std::uint32_t sequence;
  std::uint32_t round;     ///< agree, hash, weights
  std::uint64_t identity;  ///< agree; hash: of the result
  bool equal;              ///< hash
  ErrorCode code;          ///< failed
  std::string text;
};

/// Sends and receives control messages. Used by the transport's owner only.
class ControlPlane {
 public:
  static constexpr std::size_t kMaxTextBytes = 4096;
  using Handler = std::function<void(const ControlMessage&)>;
  using TransferHandler = std::function<void(const transport::MessageHeader&, std::span<const std::byte>)>;

  /// Takes the transport's control handler. The transport must outlive this.
  ControlPlane(transport::Transport& transport, std::uint64_t communicator, Handler handler);
  ~ControlPlane();
  /// For offer and all after it; without one they are ignored.
  void set_transfer_handler(TransferHandler handler) { transfer_handler_ = std::move(handler); }

  /// Best effort: an error of the transport is logged, not returned; the data path will meet it too.
  void send_agree(std::int32_t peer, std::uint32_t sequence, std::uint32_t round, std::uint64_t identity,
                  std::string_view text);
  void send_failed(std::int32_t peer, std::uint32_t sequence, const Status& why);
  /// ask, here and missing.
  void send_word(ControlType type, std::int32_t peer, std::uint32_t sequence, std::string_view text);
  void send_hash(std::int32_t peer, std::uint32_t sequence, std::uint32_t round, std::uint64_t hash,
                 bool equal);
  /// Any control message; the header's control_type, sequence, slice, chunk and plan are the caller's.
  void send(std::int32_t peer, const transport::MessageHeader& header, std::string_view bytes) {
    post(peer, header, bytes);
  }
  void send_weights(std::int32_t peer, std::uint32_t sequence, std::uint32_t part, std::string_view bytes);
  /// Frees what has been sent. Cheap.
  void reap();
  /// Drives until everything has been sent, or the deadline.
  void flush(Deadline deadline);

 private:
  struct Outgoing {
    transport::Send send;
    std::string text;
  };

  void post(std::int32_t peer, transport::MessageHeader header, std::string_view text);
  void handle(const transport::MessageHeader& header, std::span<const std::byte> payload) const;

  transport::Transport& transport_;
  std::uint64_t communicator_;
  Handler handler_;
  TransferHandler transfer_handler_;
  std::deque<std::unique_ptr<Outgoing>> outgoing_;
};

}  // namespace ferrule::communicator
