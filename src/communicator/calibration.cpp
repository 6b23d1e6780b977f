#include "communicator/calibration.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "plan/selection.hpp"

namespace ferrule::communicator {
namespace {

using Clock = Deadline::Clock;

// One-shot makes a rank send to all others at once: beyond this world it is told by direct's two rounds
// instead.
constexpr std::int32_t kMostOneShot = 32;
constexpr int kRepetitions = 12;
// Where one message takes as long as this, messages are not told from latency, ...
constexpr double kLong = 2e-3;
// ... and as long as this, nothing is repeated.
constexpr double kVeryLong = 20e-3;
// A size tells the bandwidth if it takes this long, and this much longer than an empty all-reduce.
constexpr double kClear = 4e-3;
constexpr double kClearOfStart = 1.3;
constexpr std::size_t kFirstBytes = 256 << 10;
constexpr std::size_t kGrowth = 16;
constexpr std::size_t kMostBytes = 16 << 20;

constexpr std::size_t kCodecElements = 2 << 20;
constexpr std::size_t kCodecSlice = 128 << 10;
constexpr int kCodecPasses = 3;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Memory of one rank for timing a codec: elements, residual, wire bytes, one slice after another.
class CodecTimer {
 public:
  static Result<CodecTimer> make(const codec::Codec& codec) {
    auto memory = HugeBuffer::allocate(2 * kCodecElements * sizeof(float) +
                                       codec.encoded_bytes(kCodecElements, DType::f32) + kCodecElements);
    FERRULE_RETURN_IF_ERROR(memory.status());
    return CodecTimer(codec, std::move(memory).value());
  }

  double encode() {
    return best([this](std::size_t first) {
      const codec::Term mine{codec::Term::Kind::plain, elements() + first};
      codec::EncodeArgs args;
      args.terms = {&mine, 1};
      args.count = kCodecSlice;
      args.feedback = {residual() + first, residual() + first, true};
      args.noise.first_element = first;
      args.out = wire(first);
      codec_.encode(args);
    });
  }

  double decode() {
    return best([this](std::size_t first) {
      const codec::Term terms[] = {{codec::Term::Kind::plain, elements() + first},
                                   {codec::Term::Kind::encoded, wire(first)}};
      codec::DecodeArgs args;
      args.terms = terms;
      args.count = kCodecSlice;
      args.out = elements() + first;
      codec_.decode(args);
    });
  }

 private:
  CodecTimer(const codec::Codec& codec, HugeBuffer memory) : codec_(codec), memory_(std::move(memory)) {
    for (std::size_t i = 0; i < kCodecElements; ++i) elements()[i] = static_cast<float>(i % 1024) - 511.5F;
  }

  float* elements() { return reinterpret_cast<float*>(memory_.data()); }
  float* residual() { return elements() + kCodecElements; }
  std::byte* wire(std::size_t first) {
    return memory_.data() + 2 * kCodecElements * sizeof(float) + codec_.encoded_bytes(first, DType::f32);
  }

  template <class Slice>
  static double best(Slice slice) {
    double least = 1e9;
    for (int pass = 0; pass < kCodecPasses; ++pass) {
      const auto start = Clock::now();
      for (std::size_t first = 0; first < kCodecElements; first += kCodecSlice) slice(first);
      least = std::min(least, seconds_since(start) / kCodecElements);
    }
    return least;
  }

  const codec::Codec& codec_;
  HugeBuffer memory_;
};

}  // namespace

Status Calibration::reduce(std::string_view algorithm, std::size_t count) {
  Call call;
  call.send = zeros_.data();
  call.recv = zeros_.data();
  call.count = count;
  call.codec = "none";
  call.algorithm = algorithm;
  auto work = communicator_.start(call, false);
  FERRULE_RETURN_IF_ERROR(work.status());
  return communicator_.wait(**work, Deadline::never());
}

Result<double> Calibration::largest(double mine) {
  Call call;
  call.send = &mine;
  call.recv = &mine;
  call.count = 1;
  call.dtype = DType::f64;
  call.op = ReduceOp::max;
  call.codec = "none";
  call.algorithm = "recursive_doubling";
  auto work = communicator_.start(call, false);
  FERRULE_RETURN_IF_ERROR(work.status());
  FERRULE_RETURN_IF_ERROR(communicator_.wait(**work, Deadline::never()));
  return mine;
}

Result<double> Calibration::time(const Timed& timed) {
  const std::size_t bytes = timed.count * sizeof(float);
  if (zeros_.bytes() < bytes) {
    auto grown = HugeBuffer::allocate(bytes);
    FERRULE_RETURN_IF_ERROR(grown.status());
    zeros_ = std::move(grown).value();
  }
  // The first agrees on the plan. Others on the machine only ever make it slower: the least is nearest the
  // link.
  FERRULE_RETURN_IF_ERROR(reduce(timed.algorithm, timed.count));
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < timed.repetitions; ++i) {
    const auto start = Clock::now();
    FERRULE_RETURN_IF_ERROR(reduce(timed.algorithm, timed.count));
    least = std::min(least, seconds_since(start));
  }
  return largest(least);
}

Result<plan::LinkModel> Calibration::link() {
  const std::int32_t world = communicator_.size();
  // doubling = steps (latency + message)
  const double steps = plan::rounds_of(*collectives::find_algorithm("recursive_doubling"), world);
  auto doubling = time({"recursive_doubling", 1, 1});
  FERRULE_RETURN_IF_ERROR(doubling.status());
  plan::LinkModel link;
  link.message_s = 0;
  if (*doubling / steps < kVeryLong) doubling = time({"recursive_doubling", 1, kRepetitions});
  FERRULE_RETURN_IF_ERROR(doubling.status());
  if (*doubling / steps < kLong && world > 2) {
    auto message_s = message_seconds(*doubling / steps);
    FERRULE_RETURN_IF_ERROR(message_s.status());
    link.message_s = *message_s;
  }
  link.latency_s = std::max(1e-7, *doubling / steps - link.message_s);
  auto byte_s = byte_seconds(link);
  FERRULE_RETURN_IF_ERROR(byte_s.status());
  link.byte_s = *byte_s;
  return link;
}

// `step`: one message, sent and reacted to.
Result<double> Calibration::message_seconds(double step) {
  const std::int32_t world = communicator_.size();
  const bool is_small = world <= kMostOneShot;
  auto wide =
      time({is_small ? "one_shot" : "direct", is_small ? 1U : static_cast<std::size_t>(world), kRepetitions});
  FERRULE_RETURN_IF_ERROR(wide.status());
  // wide = rounds (latency + (world - 1) message), step = latency + message
  const double rounds = is_small ? 1 : 2;
  return std::clamp((*wide / rounds - step) / (world - 2), 0.0, step / 2);
}

Result<double> Calibration::byte_seconds(const plan::LinkModel& link) {
  const plan::Shape shape = plan::shape_of(*collectives::find_algorithm("direct"), communicator_.size());
  const double start_s = 2 * link.latency_s + shape.messages * link.message_s;
  for (std::size_t bytes = kFirstBytes;; bytes *= kGrowth) {
    bytes = std::min(bytes, kMostBytes);
    auto seconds = time({"direct", bytes / sizeof(float), start_s < kLong ? 2 : 1});
    FERRULE_RETURN_IF_ERROR(seconds.status());
    const bool is_clear = *seconds > kClear && *seconds > kClearOfStart * start_s;
    if (!is_clear && bytes < kMostBytes) continue;
    const double wire_s = std::max(*seconds - start_s, *seconds / 20);
    return wire_s / (shape.sent * static_cast<double>(bytes));
  }
}

Result<plan::CodecCost> Calibration::codec(const codec::Codec& codec) {
  auto timer = CodecTimer::make(codec);
  FERRULE_RETURN_IF_ERROR(timer.status());
  FERRULE_RETURN_IF_ERROR(largest(0).status());  // begin together
  auto encode_s = largest(timer->encode());
  FERRULE_RETURN_IF_ERROR(encode_s.status());
  auto decode_s = largest(timer->decode());
  FERRULE_RETURN_IF_ERROR(decode_s.status());
  return plan::CodecCost{*encode_s, *decode_s};
}

}  // namespace ferrule::communicator
