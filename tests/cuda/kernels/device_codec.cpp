#include "kernels/device_codec.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "cuda/codec_kernels.hpp"
#include "kernels/device_memory.hpp"

namespace ferrule::cuda::testing {
namespace {

using codec::Term;

class DeviceCodec final : public codec::Codec {
 public:
  explicit DeviceCodec(std::shared_ptr<const codec::Codec> codec) : codec_(std::move(codec)) {
    const Result<CodecKernels> kernels = find_kernels(*codec_);
    EXPECT_TRUE(kernels.ok()) << kernels.status().text();
    if (kernels.ok()) kernels_ = *kernels;
  }

  const std::string& spec() const override { return codec_->spec(); }
  std::size_t block() const override { return codec_->block(); }
  bool exact() const override { return codec_->exact(); }
  bool identity() const override { return codec_->identity(); }
  bool supports(DType dtype, ReduceOp op) const override { return codec_->supports(dtype, op); }
  std::size_t encoded_bytes(std::size_t count, DType dtype) const override {
    return codec_->encoded_bytes(count, dtype);
  }
  double relative_bound() const override { return codec_->relative_bound(); }
  double absolute_bound() const override { return codec_->absolute_bound(); }

  void encode(const codec::EncodeArgs& args) const override {
    DeviceBuffers buffers;
    codec::EncodeArgs on_device = args;
    const std::vector<Term> terms = map_terms(args.terms, args.count, args.dtype, buffers);
    on_device.terms = terms;
    const std::size_t residual_bytes = args.count * sizeof(float);
    on_device.feedback.before = buffers.read(args.feedback.before, residual_bytes);
    on_device.feedback.after = buffers.write(args.feedback.after, residual_bytes);
    on_device.out = buffers.write(args.out, encoded_bytes(args.count, args.dtype));
    const Status status = cuda::encode(kernels_, on_device, nullptr);
    EXPECT_TRUE(status.ok()) << status.text();
    buffers.finish();
  }

  bool decode(const codec::DecodeArgs& args) const override {
    DeviceBuffers buffers;
    codec::DecodeArgs on_device = args;
    const std::vector<Term> terms = map_terms(args.terms, args.count, args.dtype, buffers);
    on_device.terms = terms;
    on_device.out = buffers.write(static_cast<std::byte*>(args.out), args.count * element_bytes(args.dtype));
    std::uint32_t not_finite = 0;
    const Status status =
        cuda::decode(kernels_, on_device, nullptr, buffers.write(&not_finite, sizeof not_finite));
    EXPECT_TRUE(status.ok()) << status.text();
    buffers.finish();
    return not_finite == 0;
  }

 private:
  std::vector<Term> map_terms(std::span<const Term> terms, std::size_t count, DType dtype,
                              DeviceBuffers& buffers) const {
    std::vector<Term> mapped(terms.begin(), terms.end());
    for (Term& term : mapped) {
      const std::size_t bytes =
          term.kind == Term::Kind::plain ? count * element_bytes(dtype) : encoded_bytes(count, dtype);
      term.data = buffers.read(static_cast<const std::byte*>(term.data), bytes);
    }
    return mapped;
  }

  std::shared_ptr<const codec::Codec> codec_;
  CodecKernels kernels_;
};

}  // namespace

std::unique_ptr<const codec::Codec> on_device(std::shared_ptr<const codec::Codec> codec) {
  return std::make_unique<DeviceCodec>(std::move(codec));
}

}  // namespace ferrule::cuda::testing
