// C API: codecs by themselves, and what is known about their errors.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "codec/error_bound.hpp"
#include "communicator/c_api.hpp"
#include "communicator/sum_bounds.hpp"

namespace ferrule::c_api {
namespace {

Status check_elements(const void* data, std::size_t count, DType dtype, std::string_view name) {
  if (!is_valid(dtype)) {
    return Status(ErrorCode::invalid_argument, fmt::format("{} is no dtype", static_cast<int>(dtype)));
  }
  if (count > PTRDIFF_MAX / element_bytes(dtype)) {
    return Status(ErrorCode::invalid_argument, fmt::format("count {} is more than memory can hold", count));
  }
  if (data == nullptr && count != 0) return null_argument(name);
  if (reinterpret_cast<std::uintptr_t>(data) % element_bytes(dtype) != 0) {
    return Status(ErrorCode::invalid_argument, fmt::format("{} is not aligned to its elements", name));
  }
  return {};
}

Status check_codec(ferruleCodec_t codec, DType dtype) {
  if (codec == nullptr) return null_argument("codec");
  if (!is_valid(dtype) || !codec->codec->supports(dtype, ReduceOp::sum)) {
    return Status(ErrorCode::unsupported,
                  fmt::format("codec '{}' does not take {}", codec->codec->spec(), dtype_name(dtype)));
  }
  return {};
}

Status check_bytes(std::size_t given, std::size_t needed, std::string_view what) {
  if (given == needed) return {};
  return Status(ErrorCode::invalid_argument,
                fmt::format("{}: {} bytes given, {} needed", what, given, needed));
}

Status encode_with_residual(ferruleCodec_t codec, codec::EncodeArgs args, residual::Residual& kept) {
  if (kept.space() != nullptr) {
    return Status(ErrorCode::invalid_argument,
                  "the residual is in device memory: a codec by itself works on host memory");
  }
  if (kept.count() != args.count) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("the residual has {} elements, the tensor {}", kept.count(), args.count));
  }
  FERRULE_RETURN_IF_ERROR(kept.try_use());
  args.feedback = {kept.values(), kept.values(), true};  // an encode cannot fail: in place
  codec->codec->encode(args);
  kept.end_use();
  return {};
}

}  // namespace
}  // namespace ferrule::c_api

using ferrule::DType;
using ferrule::ErrorCode;
using ferrule::ReduceOp;
using ferrule::Status;
using namespace ferrule::c_api;  // NOLINT: this file is the other half of that namespace
namespace codec_ns = ferrule::codec;

extern "C" {

ferruleResult_t ferruleCodecCreate(ferruleCodec_t* codec, const char* spec) {
  return guarded([&]() -> Status {
    if (codec == nullptr || spec == nullptr) return null_argument("codec or spec");
    *codec = nullptr;
    auto made = codec_ns::make_codec(spec);
    FERRULE_RETURN_IF_ERROR(made.status());
    *codec = new ferruleCodec{std::move(made).value()};
    return {};
  });
}

ferruleResult_t ferruleCodecSpec(ferruleCodec_t codec, const char** spec) {
  return guarded([&]() -> Status {
    if (codec == nullptr || spec == nullptr) return null_argument("codec or spec");
    *spec = codec->codec->spec().c_str();
    return {};
  });
}

ferruleResult_t ferruleCodecBlock(ferruleCodec_t codec, size_t* elements) {
  return guarded([&]() -> Status {
    if (codec == nullptr || elements == nullptr) return null_argument("codec or elements");
    *elements = codec->codec->block();
    return {};
  });
}

ferruleResult_t ferruleCodecEncodedBytes(ferruleCodec_t codec, size_t count, ferruleDataType_t dtype,
                                         size_t* bytes) {
  return guarded([&]() -> Status {
    const auto type = static_cast<DType>(dtype);
    FERRULE_RETURN_IF_ERROR(check_codec(codec, type));
    if (bytes == nullptr) return null_argument("bytes");
    *bytes = codec->codec->encoded_bytes(count, type);
    return {};
  });
}

ferruleResult_t ferruleCodecEncode(ferruleCodec_t codec, const void* in, size_t count,
                                   ferruleDataType_t dtype, ferruleResidual_t residual, uint64_t seed,
                                   uint64_t step, void* out, size_t out_bytes) {
  return guarded([&]() -> Status {
    const auto type = static_cast<DType>(dtype);
    FERRULE_RETURN_IF_ERROR(check_codec(codec, type));
    FERRULE_RETURN_IF_ERROR(check_elements(in, count, type, "in"));
    const std::size_t needed = codec->codec->encoded_bytes(count, type);
    if (out_bytes < needed) return check_bytes(out_bytes, needed, "out is too small");
    if (count == 0) return {};
    if (out == nullptr) return null_argument("out");
    const codec_ns::Term term{codec_ns::Term::Kind::plain, in};
    codec_ns::EncodeArgs args;
    args.terms = {&term, 1};
    args.count = count;
    args.dtype = type;
    args.noise = {codec_ns::noise_key(seed, step, 0, 0), 0};
    args.out = static_cast<std::byte*>(out);
    if (residual != nullptr && !codec->codec->exact())
      return encode_with_residual(codec, args, *residual->residual);
    codec->codec->encode(args);
    return {};
  });
}

ferruleResult_t ferruleCodecDecode(ferruleCodec_t codec, const void* in, size_t in_bytes, void* out,
                                   size_t count, ferruleDataType_t dtype) {
  return guarded([&]() -> Status {
    const auto type = static_cast<DType>(dtype);
    FERRULE_RETURN_IF_ERROR(check_codec(codec, type));
    FERRULE_RETURN_IF_ERROR(check_elements(out, count, type, "out"));
    FERRULE_RETURN_IF_ERROR(
        check_bytes(in_bytes, codec->codec->encoded_bytes(count, type), "in has the wrong length"));
    if (count == 0) return {};
    if (in == nullptr) return null_argument("in");
    const codec_ns::Term term{codec_ns::Term::Kind::encoded, in};
    codec_ns::DecodeArgs args;
    args.terms = {&term, 1};
    args.count = count;
    args.dtype = type;
    args.out = out;
    static_cast<void>(codec->codec->decode(args));
    return {};
  });
}

ferruleResult_t ferruleCodecErrorBound(ferruleCodec_t codec, const void* in, size_t count,
                                       ferruleDataType_t dtype, double* bound) {
  return guarded([&]() -> Status {
    const auto type = static_cast<DType>(dtype);
    FERRULE_RETURN_IF_ERROR(check_codec(codec, type));
    FERRULE_RETURN_IF_ERROR(check_elements(in, count, type, "in"));
    if (bound == nullptr) return null_argument("bound");
    *bound = codec_ns::encode_error_bound(*codec->codec, in, count, type);
    return {};
  });
}

ferruleResult_t ferruleAllReduceErrorBound(ferruleCodec_t codec, const char* algorithm, int nranks,
                                           ferruleDataType_t dtype, ferruleRedOp_t op,
                                           const double* magnitudes, size_t count, double* bounds) {
  return guarded([&]() -> Status {
    const auto type = static_cast<DType>(dtype);
    FERRULE_RETURN_IF_ERROR(check_codec(codec, type));
    if (algorithm == nullptr) return null_argument("algorithm");
    if ((magnitudes == nullptr || bounds == nullptr) && count != 0)
      return null_argument("magnitudes or bounds");
    if (op != ferruleSum && op != ferruleAvg) {
      return Status(ErrorCode::unsupported, "error bounds exist for sum and avg only");
    }
    auto sums = ferrule::communicator::SumBounds::make(
        codec->codec, algorithm,
        {0, static_cast<std::uint32_t>(std::max(nranks, 0)), type, static_cast<ReduceOp>(op)});
    FERRULE_RETURN_IF_ERROR(sums.status());
    for (size_t i = 0; i < count; ++i) bounds[i] = sums->at(magnitudes[i]);
    return {};
  });
}

ferruleResult_t ferruleCodecDestroy(ferruleCodec_t codec) {
  delete codec;
  return ferruleSuccess;
}

}  // extern "C"
