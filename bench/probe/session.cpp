#include "bench/probe/session.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "bench/probe/pair.hpp"
#include "bench/probe/tournament.hpp"
#include "codec/codec.hpp"
#include "communicator/connect.hpp"

namespace ferrule::probe {
namespace {

using communicator::Call;
using communicator::Communicator;

constexpr std::size_t kSmallest = 4 << 10;
constexpr std::size_t kLargest = 256 << 20;
constexpr std::size_t kGrowth = 4;
/// A sum for which break-even is asked: a large one.
constexpr std::size_t kLargeCount = 16 << 20;

struct Matrices {
  Matrix latency_s;
  Matrix bytes_per_s;
};

/// This rank's rows; the others are zero.
Result<Matrices> measure_pairs(transport::Transport& transport, const transport::Membership& membership,
                               std::chrono::nanoseconds timeout) {
  const std::int32_t world = membership.size();
  auto wire = Wire::make(transport, membership, timeout);
  FERRULE_RETURN_IF_ERROR(wire.status());
  const auto entries = static_cast<std::size_t>(world) * static_cast<std::size_t>(world);
  Matrices own{Matrix(entries), Matrix(entries)};
  for (std::int32_t round = 0; round < rounds_of(world); ++round) {
    FERRULE_RETURN_IF_ERROR((*wire)->barrier());
    const std::int32_t peer = opponent(membership.rank, round, world);
    if (peer < 0) continue;
    auto figures = measure_pair(**wire, membership.rank, peer);
    FERRULE_RETURN_IF_ERROR(figures.status());
    const auto at = static_cast<std::size_t>(membership.rank) * static_cast<std::size_t>(world) +
                    static_cast<std::size_t>(peer);
    own.latency_s[at] = figures->latency_s;
    own.bytes_per_s[at] = figures->bytes_per_s;
  }
  // Collectives begin when nobody measures any more.
  FERRULE_RETURN_IF_ERROR((*wire)->barrier());
  return own;
}

/// Every entry has one contribution that is not zero, so that the sum is a gather.
Status add_over_ranks(Communicator& comm, Matrix& matrix) {
  Call call;
  call.send = matrix.data();
  call.recv = matrix.data();
  call.count = matrix.size();
  call.dtype = DType::f64;
  call.codec = "none";
  auto work = comm.start(call, false);
  FERRULE_RETURN_IF_ERROR(work.status());
  return comm.wait(**work, Deadline::never());  // the collective has its own deadline
}

Result<communicator::Preview> preview(Communicator& comm, std::size_t bytes, const std::string& codec) {
  Call call;
  call.count = bytes / sizeof(float);
  call.codec = codec;
  return comm.preview(call);
}

Result<SizeFindings> look_at(Communicator& comm, const Options& options, std::size_t bytes) {
  SizeFindings findings;
  findings.bytes = bytes;
  auto raw = preview(comm, bytes, "none");
  FERRULE_RETURN_IF_ERROR(raw.status());
  findings.raw = std::move(raw).value();
  for (const std::string& codec : options.codecs) {
    auto automatic = preview(comm, bytes, std::string(kAutoCodec) + codec);
    FERRULE_RETURN_IF_ERROR(automatic.status());
    findings.automatic.push_back(std::move(automatic).value());
  }
  return findings;
}

Result<CodecFindings> describe_codec(const std::string& spec, plan::CodecCost cost, std::int32_t world) {
  auto codec = codec::make_codec(spec);
  FERRULE_RETURN_IF_ERROR(codec.status());
  constexpr std::size_t kRawBytes = kLargeCount * sizeof(float);
  plan::Situation large;
  large.world = world;
  large.count = kLargeCount;
  large.encoded_bytes = (*codec)->encoded_bytes(kLargeCount, DType::f32);
  large.exact = false;
  large.codec = cost;
  CodecFindings findings;
  findings.spec = spec;
  findings.cost = cost;
  findings.ratio = static_cast<double>(kRawBytes) / static_cast<double>(large.encoded_bytes);
  findings.break_even_bits_per_s = 8 / plan::break_even_byte_s(large, kRawBytes);
  return findings;
}

Result<std::unique_ptr<Communicator>> take_over(std::unique_ptr<transport::Transport> transport,
                                                const transport::Membership& membership,
                                                const communicator::Config& config) {
  auto defaults = communicator::defaults_of(config);
  FERRULE_RETURN_IF_ERROR(defaults.status());
  // Whatever the settings say: this program is for measuring, and looks at compression.
  defaults->tuning = {communicator::TuningSource::Kind::measure, ""};
  defaults->disable = false;
  return Communicator::make(std::move(transport), membership, std::move(defaults).value());
}

}  // namespace

Result<Findings> probe(const rendezvous::Meeting& meeting, const Options& options, bool one_process) {
  const transport::Membership& membership = meeting.membership;
  if (membership.size() < 2) {
    return Status(ErrorCode::invalid_argument,
                  "one rank alone has no link to measure: start more with --ranks N, or under a launcher");
  }
  const communicator::Config config{options.transport, "none", "auto", options.link, "", options.timeout};
  auto transport =
      communicator::connect_transport(meeting, config, Deadline::after(options.timeout), one_process);
  FERRULE_RETURN_IF_ERROR(transport.status());
  auto own = measure_pairs(**transport, membership, options.timeout);
  FERRULE_RETURN_IF_ERROR(own.status());
  auto comm = take_over(std::move(transport).value(), membership, config);
  FERRULE_RETURN_IF_ERROR(comm.status());

  Findings findings;
  findings.ranks = membership.peers;
  findings.transport = (*comm)->transport_name();
  FERRULE_RETURN_IF_ERROR(add_over_ranks(**comm, own->latency_s));
  FERRULE_RETURN_IF_ERROR(add_over_ranks(**comm, own->bytes_per_s));
  findings.latency_s = std::move(own->latency_s);
  findings.bytes_per_s = std::move(own->bytes_per_s);
  for (std::size_t bytes = kSmallest; bytes <= kLargest; bytes *= kGrowth) {
    auto size = look_at(**comm, options, bytes);
    FERRULE_RETURN_IF_ERROR(size.status());
    findings.sizes.push_back(std::move(size).value());
  }
  findings.tuning = (*comm)->tuning();  // with the codecs that looking has measured
  for (const std::string& spec : options.codecs) {
    auto codec = describe_codec(spec, findings.tuning.codecs.at(spec), membership.size());
    FERRULE_RETURN_IF_ERROR(codec.status());
    findings.codecs.push_back(std::move(codec).value());
  }
  return findings;
}

}  // namespace ferrule::probe
