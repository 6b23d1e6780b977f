// Speed of every codec operation on one core, against memcpy of the same number of fp32 bytes.
//
// Benchmarks are named <codec>/<operation>/<bytes of fp32>. memcpy and the operation alternate in one run, so
// that a machine that slows down slows both; `vs_memcpy` is the median over the pairs of (time of memcpy /
// time of the operation), both in CPU time of the thread: where other programs want the core, waiting for it
// says nothing about either. Other codecs and sizes: codec_bench --codec=int4:block=512 --bytes=1048576.
// --inputs=N: calls take N different inputs in turn. Where code branches on data, as that of topk does, a
// processor learns a single small input by heart.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/huge_buffer.hpp"
#include "codec/codec.hpp"
#include "codec/simd/target.hpp"

namespace ferrule::bench {
namespace {

using codec::Codec;
using codec::Term;

/// What one operation works on. All buffers are touched when they are made, so that no page fault is timed.
struct Buffers {
  Buffers(std::size_t bytes, std::size_t number_of_inputs)
      : count(bytes / sizeof(float)),
        inputs(number_of_inputs),
        all_inputs(make(bytes * inputs)),
        output(make(bytes)),
        residual(make(bytes)),
        wire_in(make(bytes + kRoom)),
        wire_out(make(bytes + kRoom)),
        copy(make(bytes)) {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal(0.0F, 1e-3F);
    for (std::size_t i = 0; i < count * inputs; ++i) floats(all_inputs)[i] = normal(generator);
  }

  static HugeBuffer make(std::size_t bytes) {
    Result<HugeBuffer> buffer = HugeBuffer::allocate(bytes);
    if (buffer.ok()) return std::move(buffer).value();
    fmt::print(stderr, "codec_bench: {}\n", buffer.status().text());
    std::exit(1);
  }
  static float* floats(const HugeBuffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

  /// The input of this call.
  const float* input() const { return floats(all_inputs) + turn % inputs * count; }

  static constexpr std::size_t kRoom = 64;
  std::size_t count;
  std::size_t inputs;
  std::size_t turn = 0;
  HugeBuffer all_inputs;
  HugeBuffer output;
  HugeBuffer residual;
  HugeBuffer wire_in;
  HugeBuffer wire_out;
  HugeBuffer copy;
};

using Operation = void (*)(const Codec& codec, const Buffers& buffers);

codec::EncodeArgs encode_args(const Buffers& buffers, std::span<const Term> terms) {
  codec::EncodeArgs args;
  args.terms = terms;
  args.count = buffers.count;
  args.out = buffers.wire_out.data();
  return args;
}

void run_encode(const Codec& codec, const Buffers& buffers) {
  const Term terms[] = {{Term::Kind::plain, buffers.input()}};
  codec.encode(encode_args(buffers, terms));
}

void run_encode_residual(const Codec& codec, const Buffers& buffers) {
  const Term terms[] = {{Term::Kind::plain, buffers.input()}};
  codec::EncodeArgs args = encode_args(buffers, terms);
  args.feedback.before = args.feedback.after = Buffers::floats(buffers.residual);
  codec.encode(args);
}

void run_hop(const Codec& codec, const Buffers& buffers) {
  const Term terms[] = {{Term::Kind::encoded, buffers.wire_in.data()}, {Term::Kind::plain, buffers.input()}};
  codec.encode(encode_args(buffers, terms));
}

/// The reduce of direct with four ranks. (The three peers send the same bytes from one buffer: 3/8 of its
/// traffic is from cache for 4 bits.)
void run_reduce4(const Codec& codec, const Buffers& buffers) {
  const Term peer{Term::Kind::encoded, buffers.wire_in.data()};
  const Term terms[] = {peer, {Term::Kind::plain, buffers.input()}, peer, peer};
  codec.encode(encode_args(buffers, terms));
}

void decode(const Codec& codec, const Buffers& buffers, std::span<const Term> terms) {
  codec::DecodeArgs args;
  args.terms = terms;
  args.count = buffers.count;
  args.out = buffers.output.data();
  benchmark::DoNotOptimize(codec.decode(args));
}

void run_decode(const Codec& codec, const Buffers& buffers) {
  const Term terms[] = {{Term::Kind::encoded, buffers.wire_in.data()}};
  decode(codec, buffers, terms);
}

void run_decode_add(const Codec& codec, const Buffers& buffers) {
  const Term terms[] = {{Term::Kind::plain, buffers.output.data()},
                        {Term::Kind::encoded, buffers.wire_in.data()}};
  decode(codec, buffers, terms);
}

constexpr std::pair<const char*, Operation> kOperations[] = {
    {"encode", run_encode}, {"encode_residual", run_encode_residual},
    {"decode", run_decode}, {"decode_add", run_decode_add},
    {"hop", run_hop},       {"reduce4", run_reduce4},
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void prepare(const Codec& codec, const Buffers& buffers) {
  std::memset(buffers.output.data(), 0, buffers.output.bytes());
  std::memset(buffers.residual.data(), 0, buffers.residual.bytes());
  const Term terms[] = {{Term::Kind::plain, buffers.input()}};
  codec::EncodeArgs args = encode_args(buffers, terms);
  args.out = buffers.wire_in.data();
  codec.encode(args);
}

/// CPU time of this thread, in seconds.
double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <class Function>
double seconds_of(std::int64_t repetitions, const Function& function) {
  const double start = thread_seconds();
  for (std::int64_t i = 0; i < repetitions; ++i) function();
  return thread_seconds() - start;
}

/// Small sizes run in batches, so that reading the clock costs nothing beside them.
std::int64_t batch_of(std::size_t bytes) {
  return static_cast<std::int64_t>(std::clamp<std::size_t>((std::size_t{16} << 20) / bytes, 1, 4096));
}

void run(benchmark::State& state, const Codec& codec, Operation operation, Buffers& buffers) {
  prepare(codec, buffers);
  const std::size_t bytes = buffers.count * sizeof(float);
  const std::int64_t batch = batch_of(bytes);
  const auto copy = [&] {
    std::memcpy(buffers.copy.data(), buffers.input(), bytes);
    ++buffers.turn;
    benchmark::DoNotOptimize(buffers.copy.data());
    benchmark::ClobberMemory();
  };
  std::vector<double> ratios;
  std::vector<double> copies;
  while (state.KeepRunningBatch(batch)) {
    state.PauseTiming();
    copies.push_back(seconds_of(batch, copy));
    state.ResumeTiming();
    ratios.push_back(copies.back() / seconds_of(batch, [&] {
                       operation(codec, buffers);
                       ++buffers.turn;
                     }));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
  state.counters["vs_memcpy"] = median(std::move(ratios));
  state.counters["memcpy_GBps"] =
      static_cast<double>(bytes) * static_cast<double>(batch) / median(std::move(copies)) * 1e-9;
}

/// Takes the options that Google Benchmark does not know out of argv: every --<name>=<value>.
std::vector<std::string> take_options(int& argc, char** argv, std::string_view name) {
  std::vector<std::string> values;
  const std::string prefix = fmt::format("--{}=", name);
  const auto is_option = [&](char* argument) {
    const std::string_view text(argument);
    if (!text.starts_with(prefix)) return false;
    values.emplace_back(text.substr(prefix.size()));
    return true;
  };
  argc = static_cast<int>(std::remove_if(argv + 1, argv + argc, is_option) - argv);
  return values;
}

/// The buffers of one size, made when the first benchmark needs them.
class LazyBuffers {
 public:
  LazyBuffers(std::size_t bytes, std::size_t inputs) : bytes_(bytes), inputs_(inputs) {}
  std::size_t bytes() const { return bytes_; }
  Buffers& get() {
    if (buffers_ == nullptr) buffers_ = std::make_unique<Buffers>(bytes_, inputs_);
    return *buffers_;
  }

 private:
  std::size_t bytes_;
  std::size_t inputs_;
  std::unique_ptr<Buffers> buffers_;
};
using Sizes = std::vector<std::shared_ptr<LazyBuffers>>;

/// Registers all operations of one codec; false if there is no such codec.
bool register_codec(const std::string& text, const Sizes& sizes) {
  Result<std::unique_ptr<const Codec>> made = codec::make_codec(text);
  if (!made.ok()) {
    fmt::print(stderr, "codec_bench: {}\n", made.status().text());
    return false;
  }
  const std::shared_ptr<const Codec> codec = std::move(made).value();
  for (const auto& [name, operation] : kOperations) {
    for (const auto& buffers : sizes) {
      const std::string label = fmt::format("{}/{}/{}", text, name, buffers->bytes());
      benchmark::RegisterBenchmark(label.c_str(), [=, run_operation = operation](benchmark::State& state) {
        run(state, *codec, run_operation, buffers->get());
      });
    }
  }
  return true;
}

/// The last --inputs, 1 without.
std::size_t number_of_inputs(const std::vector<std::string>& texts) {
  if (texts.empty()) return 1;
  const unsigned long number = std::strtoul(texts.back().c_str(), nullptr, 10);
  if (number >= 1 && number <= 1024) return number;
  fmt::print(stderr, "codec_bench: --inputs={}: expected a number from 1 to 1024\n", texts.back());
  std::exit(2);
}

Sizes make_sizes(const std::vector<std::string>& texts, std::size_t inputs) {
  Sizes sizes;
  for (const std::string& text : texts) {
    const unsigned long long bytes = std::strtoull(text.c_str(), nullptr, 10);
    if (bytes < sizeof(float) || bytes > (1ULL << 34) || bytes % sizeof(float) != 0) {
      fmt::print(stderr, "codec_bench: --bytes={}: expected a multiple of 4 from 4 to 2^34\n", text);
      std::exit(2);
    }
    sizes.push_back(std::make_shared<LazyBuffers>(bytes, inputs));
  }
  return sizes;
}

int run_all(int argc, char** argv) {
  std::vector<std::string> codecs = take_options(argc, argv, "codec");
  std::vector<std::string> bytes = take_options(argc, argv, "bytes");
  const std::size_t inputs = number_of_inputs(take_options(argc, argv, "inputs"));
  if (codecs.empty()) codecs = codec::codec_names();
  if (bytes.empty()) bytes = {"262144", "67108864"};
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const Sizes sizes = make_sizes(bytes, inputs);
  for (const std::string& text : codecs) {
    if (!register_codec(text, sizes)) return 2;
  }
  benchmark::AddCustomContext("simd", codec::simd::simd_target_name());
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace ferrule::bench

int main(int argc, char** argv) { return ferrule::bench::run_all(argc, argv); }
