// Kernels against a device-to-device copy in the same run, by traffic: a ratio of 1 moves as many bytes a
// second.
//
//   cuda_bench [--json FILE]
//
// For each codec and operation, 64 KiB to 1 GiB of fp32: once cold (the caches hold something else, one
// launch a measurement) and once warm (launches one after another on the same buffers). Ends with 77 where
// there is no device.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "codec/codec.hpp"
#include "cuda/codec_kernels.hpp"
#include "device.hpp"

namespace ferrule::bench {
namespace {

constexpr int kNoDevice = 77;
constexpr std::size_t kPeers = 7;  ///< of the reduce, besides the rank itself

struct Result {
  std::string codec, operation;
  std::size_t elements_bytes;
  double traffic_bytes, cold_us, warm_us, cold_copy_us, warm_copy_us;

  /// The copy moves twice its bytes.
  double cold_ratio() const {
    return traffic_bytes / cold_us / (2.0 * static_cast<double>(elements_bytes) / cold_copy_us);
  }
  double warm_ratio() const {
    return traffic_bytes / warm_us / (2.0 * static_cast<double>(elements_bytes) / warm_copy_us);
  }
};

void expect(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "cuda_bench: %s\n", status.text().c_str());
  std::exit(1);
}

/// All that one size of one codec needs.
class Workplace {
 public:
  Workplace(const codec::Codec& codec, std::size_t count, Timer& timer)
      : codec_(codec),
        count_(count),
        timer_(timer),
        wire_bytes_(codec.encoded_bytes(count, DType::f32)),
        elements_(count * 4),
        output_(count * 4),
        residual_(count * 4),
        wire_((wire_bytes_ + 15) / 16 * 16 * (kPeers + 1)) {
    must(cudaMemset(elements_.as<void>(), 0x3c, elements_.bytes()), "cudaMemset");
    must(cudaMemset(residual_.as<void>(), 0, residual_.bytes()), "cudaMemset");
    for (std::size_t peer = 0; peer < kPeers; ++peer) encode({plain()}, false, peer);
    must(cudaStreamSynchronize(timer.stream()), "encode");
    copy_cold_us_ = timer.cold_us([this] { copy_elements(); }, 9);
    copy_warm_us_ = timer.warm_us([this] { copy_elements(); }, 9, 20);
  }

  std::vector<Result> run() {
    const double e = 4.0 * static_cast<double>(count_);
    const double w = static_cast<double>(wire_bytes_);
    std::vector<codec::Term> all;
    for (std::size_t peer = 0; peer < kPeers; ++peer) all.push_back(encoded(peer));
    all.push_back(plain());
    return {measure("encode", e + w, [&] { encode({plain()}, false, kPeers); }),
            measure("encode with residual", 3 * e + w, [&] { encode({plain()}, true, kPeers); }),
            measure("decode", e + w, [&] { decode({encoded(0)}); }),
            measure("decode_add", 2 * e + w,
                    [&] {
                      decode({{codec::Term::Kind::plain, output_.as<void>()}, encoded(0)});
                    }),
            measure("hop", e + 2 * w,
                    [&] {
                      encode({encoded(0), plain()}, false, kPeers);
                    }),
            measure("reduce of 8", e + 8 * w, [&] { encode(all, false, kPeers); })};
  }

 private:
  codec::Term plain() const { return {codec::Term::Kind::plain, elements_.as<void>()}; }
  std::byte* slot(std::size_t index) const {
    return wire_.as<std::byte>() + index * ((wire_bytes_ + 15) / 16 * 16);
  }
  codec::Term encoded(std::size_t index) const { return {codec::Term::Kind::encoded, slot(index)}; }

  void copy_elements() {
    must(cudaMemcpyAsync(output_.as<void>(), elements_.as<void>(), count_ * 4, cudaMemcpyDeviceToDevice,
                         timer_.stream()),
         "cudaMemcpyAsync");
  }
  void encode(const std::vector<codec::Term>& terms, bool residual, std::size_t to) {
    codec::EncodeArgs args;
    args.terms = terms;
    args.count = count_;
    if (residual) args.feedback = {residual_.as<float>(), residual_.as<float>(), true};
    args.out = slot(to);
    expect(cuda::encode(codec_, args, timer_.stream()));
  }
  void decode(const std::vector<codec::Term>& terms) {
    codec::DecodeArgs args;
    args.terms = terms;
    args.count = count_;
    args.out = output_.as<void>();
    expect(cuda::decode(codec_, args, timer_.stream()));
  }
  template <class Call>
  Result measure(const char* operation, double traffic, const Call& call) {
    return {codec_.spec(),
            operation,
            count_ * 4,
            traffic,
            timer_.cold_us(call, 9),
            timer_.warm_us(call, 9, 20),
            copy_cold_us_,
            copy_warm_us_};
  }

  const codec::Codec& codec_;
  std::size_t count_;
  Timer& timer_;
  std::size_t wire_bytes_;
  DeviceMemory elements_, output_, residual_, wire_;
  double copy_cold_us_ = 0;
  double copy_warm_us_ = 0;
};

std::string as_json(const std::string& device, const std::vector<Result>& results) {
  std::string rows;
  for (const Result& r : results) {
    rows += fmt::format(
        "{}\n    {{\"codec\": \"{}\", \"operation\": \"{}\", \"bytes\": {}, \"traffic_bytes\": {:.0f}, "
        "\"cold_us\": {:.2f}, "
        "\"warm_us\": {:.2f}, \"copy_cold_us\": {:.2f}, \"copy_warm_us\": {:.2f}, \"cold_ratio\": {:.3f}, "
        "\"warm_ratio\": {:.3f}}}",
        rows.empty() ? "" : ",", r.codec, r.operation, r.elements_bytes, r.traffic_bytes, r.cold_us,
        r.warm_us, r.cold_copy_us, r.warm_copy_us, r.cold_ratio(), r.warm_ratio());
  }
  return fmt::format("{{\"device\": \"{}\", \"results\": [{}\n]}}\n", device, rows);
}

int run(const std::string& json_path) {
  const std::string device = device_name();
  if (device.empty()) {
    std::fprintf(stderr, "cuda_bench: no CUDA device here\n");
    return kNoDevice;
  }
  Timer timer(std::size_t{512} << 20);
  std::vector<Result> results;
  for (const char* spec : {"int4", "int8", "int2", "bf16", "fp16", "none"}) {
    auto codec = codec::make_codec(spec);
    expect(codec.status());
    for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20,
                                    std::size_t{256} << 20, std::size_t{1} << 30}) {
      for (Result& result : Workplace(**codec, bytes / 4, timer).run()) {
        fmt::print("{:<20} {:<22} {:>11} bytes  cold {:>9.2f} us ({:.2f})  warm {:>9.2f} us ({:.2f})\n",
                   result.codec, result.operation, bytes, result.cold_us, result.cold_ratio(), result.warm_us,
                   result.warm_ratio());
        results.push_back(std::move(result));
      }
    }
  }
  if (json_path.empty()) return 0;
  std::FILE* file = std::fopen(json_path.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "cuda_bench: cannot write '%s'\n", json_path.c_str());
    return 1;
  }
  std::fputs(as_json(device, results).c_str(), file);
  std::fclose(file);
  return 0;
}

}  // namespace
}  // namespace ferrule::bench

int main(int argc, char** argv) {
  std::string json;
  if (argc == 3 && std::string(argv[1]) == "--json") {
    json = argv[2];
  } else if (argc != 1) {
    std::fprintf(stderr, "usage: cuda_bench [--json FILE]\n");
    return 2;
  }
  return ferrule::bench::run(json);
}
