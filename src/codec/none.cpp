// "none": the raw codec. Wire bytes are the elements themselves; every dtype, every operation, exact.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "codec/codec.hpp"
#include "codec/raw_reduce.hpp"

namespace ferrule::codec {
namespace {

// 64 bytes for the smallest element that a sum is usual for: cuts at multiples of it stay aligned.
constexpr std::size_t kBlock = 32;

void copy(const Term& term, std::size_t bytes, void* out) {
  if (out != term.data && bytes != 0) std::memcpy(out, term.data, bytes);
}

/// An exact encode leaves no error, so whatever was delayed stays delayed: after = before.
void keep_residual(const Feedback& feedback, std::size_t count) {
  if (feedback.after == nullptr || feedback.after == feedback.before || count == 0) return;
  if (feedback.before == nullptr) {
    std::fill_n(feedback.after, count, 0.0F);
  } else {
    std::memcpy(feedback.after, feedback.before, count * sizeof(float));
  }
}

class NoneCodec final : public Codec {
 public:
  const std::string& spec() const override { return spec_; }
  std::size_t block() const override { return kBlock; }
  bool exact() const override { return true; }
  bool identity() const override { return true; }
  bool supports(DType dtype, ReduceOp op) const override { return is_valid(dtype) && is_valid(op); }
  std::size_t encoded_bytes(std::size_t count, DType dtype) const override {
    return count * element_bytes(dtype);
  }

  void encode(const EncodeArgs& args) const override {
    RawReduce reduce{args.terms, args.dtype, args.op, 0, args.count, 1, args.out};
    if (args.final && args.op == ReduceOp::avg) reduce.divisor = std::max(args.world, 1U);
    run(reduce);
    keep_residual(args.feedback, args.count);
  }

  bool decode(const DecodeArgs& args) const override {
    RawReduce reduce{args.terms, args.dtype, args.op, 0, args.count, 1, args.out};
    const bool undivided = args.terms.size() > 1;
    if (args.finish && undivided && args.op == ReduceOp::avg) reduce.divisor = std::max(args.world, 1U);
    run(reduce);
    return true;
  }

  double relative_bound() const override { return 0; }
  double absolute_bound() const override { return 0; }

 private:
  static void run(const RawReduce& reduce) {
    if (reduce.terms.size() == 1 && reduce.divisor == 1) {
      copy(reduce.terms.front(), reduce.count * element_bytes(reduce.dtype), reduce.out);
    } else {
      raw_reduce(reduce);
    }
  }

  std::string spec_ = "none";
};

Result<std::unique_ptr<const Codec>> make(const CodecSpec& spec) {
  if (!spec.parameters.empty()) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("codec 'none' takes no parameters, but '{}' was given", spec.to_string()));
  }
  return std::unique_ptr<const Codec>(std::make_unique<NoneCodec>());
}

}  // namespace

CodecFamily none_family() { return {{"none"}, make}; }

}  // namespace ferrule::codec
