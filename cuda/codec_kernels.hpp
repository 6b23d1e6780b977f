// Codecs on the device, as the host sees them: the operations of codec::Codec with device pointers and a
// stream.
//
// No CUDA header is needed to call them. Every call enqueues kernels on the stream and returns: nothing is
// allocated, the host never waits, and all sizes are known from the arguments, so calls can be captured in a
// CUDA graph. Results are those of the codec on the CPU, bit for bit (docs/cuda.md).
//
// Spans (the list of terms) are read before the call returns; what they point at is used when the stream gets
// there. Thread safety: any number of threads; calls on one stream run in the order in which they were made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/codec.hpp"
#include "ferrule/status.hpp"
#include "ferrule/types.hpp"

namespace ferrule::cuda {

/// A cudaStream_t; null is the default stream.
using Stream = void*;

/// Terms of one call: they travel in the kernel's parameters, 8 bytes each.
inline constexpr std::size_t kMostTerms = 256;

struct KernelFamily;

/// The kernels of one codec. Looking them up reads the codec's text, so it is done once for each codec and
/// kept; a plain value, valid while the library is loaded.
struct CodecKernels {
  const KernelFamily* family = nullptr;
  int variant = 0;        ///< meaning is the family's: bits of a code, ...
  std::size_t block = 1;  ///< elements
  std::size_t kept = 0;   ///< top-k: elements of a block that are sent
  bool stochastic = false;
};

/// `unsupported` for a codec that has no kernels. Of a list of codecs (levels) the last one counts, as it
/// does in the list's own encode and decode.
Result<CodecKernels> find_kernels(const codec::Codec& codec);

/// codec::Codec::encode: every pointer in `args` is a device pointer, also those of the terms and the
/// residual. Terms that are plain are aligned to the element; everything else may have any alignment.
Status encode(const CodecKernels& kernels, const codec::EncodeArgs& args, Stream stream);
Status encode(const codec::Codec& codec, const codec::EncodeArgs& args, Stream stream);

/// codec::Codec::decode. What the host's version returns arrives on the device: `*not_finite` (null: not
/// wanted) is set to 1 if a decoded value of an encoded term is NaN or Inf, and else left as it is.
Status decode(const CodecKernels& kernels, const codec::DecodeArgs& args, Stream stream,
              std::uint32_t* not_finite = nullptr);
Status decode(const codec::Codec& codec, const codec::DecodeArgs& args, Stream stream,
              std::uint32_t* not_finite = nullptr);

/// residual::keep_where_not_finite: after[i] = before[i] where element i of `out` is NaN or Inf.
struct KeepArgs {
  const void* out = nullptr;
  DType dtype = DType::f32;
  std::size_t count = 0;
  const float* before = nullptr;
  float* after = nullptr;
  /// Device word: nothing is done where it is 0 when the stream gets there (decode's `not_finite`). Null:
  /// always done.
  const std::uint32_t* only_if = nullptr;
};
Status keep_where_not_finite(const KeepArgs& args, Stream stream);

/// Bytes of any alignment from device to device; must not overlap unless they are the same.
Status copy(const void* from, std::size_t bytes, void* to, Stream stream);
/// `word` = 0, before a decode that may set it.
Status clear(std::uint32_t* word, Stream stream);

/// One tensor of a bucket.
struct Segment {
  const void* data = nullptr;  ///< aligned to the element
  std::size_t count = 0;
};

/// squares[i] = the sum of the squares of the elements of segment i, in fp64; the same bits in every run and
/// on every device. All segments in one launch (a launch for each 128 of them). f32, f16 and bf16. `scratch`
/// holds sums_scratch_bytes(segments), aligned to 8 bytes.
Status sums_of_squares(std::span<const Segment> segments, DType dtype, double* squares, void* scratch,
                       Stream stream);
std::size_t sums_scratch_bytes(std::span<const Segment> segments);

}  // namespace ferrule::cuda
