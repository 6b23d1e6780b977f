// How encode and decode scale with worker threads (FERRULE_THREADS): a tensor is worked on slice by slice, as
// the executor does, by one thread and by several in turns. Prints the median of the ratios of wall time.
//
// scaling_bench [codec] [threads] [bytes of fp32]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/huge_buffer.hpp"
#include "codec/codec.hpp"
#include "executor/workers.hpp"

namespace ferrule::bench {
namespace {

constexpr std::size_t kWireBytes = 64512;
constexpr int kPairs = 21;

class Tensor {
 public:
  Tensor(const codec::Codec& codec, std::size_t bytes)
      : codec_(codec),
        count_(bytes / sizeof(float)),
        slice_(std::max<std::size_t>(1, kWireBytes / codec.encoded_bytes(codec.block(), DType::f32)) *
               codec.block()),
        elements_(make(bytes)),
        residual_(make(bytes)),
        wire_(make(slices() * codec.encoded_bytes(slice_, DType::f32))) {
    for (std::size_t i = 0; i < count_; ++i) floats(elements_)[i] = static_cast<float>(i % 1023) - 511.0F;
  }

  std::size_t slices() const { return (count_ + slice_ - 1) / slice_; }

  void encode(std::size_t slice) const {
    const codec::Term mine{codec::Term::Kind::plain, floats(elements_) + begin(slice)};
    codec::EncodeArgs args;
    args.terms = {&mine, 1};
    args.count = length(slice);
    float* residual = floats(residual_) + begin(slice);
    args.feedback = {residual, residual, true};
    args.noise.first_element = begin(slice);
    args.out = wire(slice);
    codec_.encode(args);
  }

  void decode_add(std::size_t slice) const {
    float* out = floats(elements_) + begin(slice);
    const codec::Term terms[] = {{codec::Term::Kind::plain, out}, {codec::Term::Kind::encoded, wire(slice)}};
    codec::DecodeArgs args;
    args.terms = terms;
    args.count = length(slice);
    args.out = out;
    codec_.decode(args);
  }

 private:
  static HugeBuffer make(std::size_t bytes) {
    auto buffer = HugeBuffer::allocate(bytes);
    if (buffer.ok()) return std::move(buffer).value();
    fmt::print(stderr, "scaling_bench: {}\n", buffer.status().text());
    std::exit(1);
  }
  static float* floats(const HugeBuffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }
  std::size_t begin(std::size_t slice) const { return slice * slice_; }
  std::size_t length(std::size_t slice) const { return std::min(slice_, count_ - begin(slice)); }
  std::byte* wire(std::size_t slice) const {
    return wire_.data() + slice * codec_.encoded_bytes(slice_, DType::f32);
  }

  const codec::Codec& codec_;
  std::size_t count_;
  std::size_t slice_;
  HugeBuffer elements_;
  HugeBuffer residual_;
  HugeBuffer wire_;
};

double seconds_of(executor::Workers& workers, std::size_t slices,
                  const std::function<void(std::size_t)>& task) {
  const auto start = std::chrono::steady_clock::now();
  workers.run(slices, task);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void compare(const char* name, std::uint32_t threads, const Tensor& tensor,
             const std::function<void(std::size_t)>& task) {
  executor::Workers one;
  executor::Workers several;
  const Status started = several.start(threads);
  if (!started.ok()) {
    fmt::print(stderr, "scaling_bench: {}\n", started.text());
    std::exit(1);
  }
  std::vector<double> ratios;
  for (int pair = -2; pair < kPairs; ++pair) {
    const double alone = seconds_of(one, tensor.slices(), task);
    const double together = seconds_of(several, tensor.slices(), task);
    if (pair >= 0) ratios.push_back(alone / together);
  }
  std::sort(ratios.begin(), ratios.end());
  fmt::print("{:<16} {} threads: {:.2f}x (quartiles {:.2f} to {:.2f})\n", name, threads, ratios[kPairs / 2],
             ratios[kPairs / 4], ratios[3 * kPairs / 4]);
}

int run(int argc, char** argv) {
  const std::string text = argc > 1 ? argv[1] : "int4";
  const unsigned long threads =
      argc > 2 ? std::strtoul(argv[2], nullptr, 10) : std::thread::hardware_concurrency();
  const unsigned long long bytes = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 64ULL << 20;
  if (threads < 1 || threads > 1024 || bytes < sizeof(float) || bytes > (1ULL << 34)) {
    fmt::print(stderr, "scaling_bench: expected 1 to 1024 threads and 4 to 2^34 bytes\n");
    return 2;
  }
  auto codec = codec::make_codec(text);
  if (!codec.ok()) {
    fmt::print(stderr, "scaling_bench: {}\n", codec.status().text());
    return 2;
  }
  const Tensor tensor(**codec, bytes);
  const auto count = static_cast<std::uint32_t>(threads);
  compare("encode_residual", count, tensor, [&](std::size_t slice) { tensor.encode(slice); });
  compare("decode_add", count, tensor, [&](std::size_t slice) { tensor.decode_add(slice); });
  return 0;
}

}  // namespace
}  // namespace ferrule::bench

int main(int argc, char** argv) { return ferrule::bench::run(argc, argv); }
