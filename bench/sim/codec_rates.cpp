#include "bench/sim/codec_rates.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace ferrule::sim {
namespace {

using codec::Term;

constexpr std::size_t kRawBytes = 256 << 10;
constexpr int kRuns = 7;

class Bench {
 public:
  Bench(const codec::Codec& codec, DType dtype)
      : codec_(codec),
        dtype_(dtype),
        count_(kRawBytes / element_bytes(dtype)),
        input_(count_ * element_bytes(dtype)),
        output_(input_.size()),
        slot_(codec.encoded_bytes(count_, dtype)),
        encoded_(slot_.size()) {
    // Finite in every float type, and neither constant nor sorted.
    for (std::size_t i = 0; i < input_.size(); ++i) input_[i] = static_cast<std::byte>(i * 7 % 61);
    encode({{Term::Kind::plain, input_.data()}}, encoded_);
  }

  CodecRates measure() {
    const Term own{Term::Kind::plain, input_.data()};
    const Term theirs{Term::Kind::encoded, encoded_.data()};
    CodecRates rates;
    rates.encode = time([&] { encode({own}, slot_); });
    rates.hop = time([&] { encode({theirs, own}, slot_); });
    rates.decode = time([&] { decode({theirs}); });
    const double four = time([&] { decode({theirs, theirs, theirs, theirs}); });
    rates.add = std::max(0.0, four / 4);
    return rates;
  }

 private:
  void encode(const std::vector<Term>& terms, std::vector<std::byte>& out) {
    codec::EncodeArgs args;
    args.terms = terms;
    args.count = count_;
    args.dtype = dtype_;
    args.out = out.data();
    codec_.encode(args);
  }

  void decode(const std::vector<Term>& terms) {
    codec::DecodeArgs args;
    args.terms = terms;
    args.count = count_;
    args.dtype = dtype_;
    args.out = output_.data();
    codec_.decode(args);
  }

  /// Nanoseconds a raw byte.
  template <class Work>
  double time(const Work& work) {
    using Clock = std::chrono::steady_clock;
    double best_ns = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kRuns; ++run) {
      const auto start = Clock::now();
      work();
      best_ns = std::min(best_ns, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
    }
    return best_ns / static_cast<double>(input_.size());
  }

  const codec::Codec& codec_;
  DType dtype_;
  std::size_t count_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
  std::vector<std::byte> slot_;
  std::vector<std::byte> encoded_;
};

}  // namespace

CodecRates measure_rates(const codec::Codec& codec, DType dtype) { return Bench(codec, dtype).measure(); }

}  // namespace ferrule::sim
