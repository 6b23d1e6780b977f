// What a bucket needs besides its codec: residuals where nothing was delivered, and norms.
#include <algorithm>

#include "cuda/residual.cuh"
#include "cuda/sums_of_squares.cuh"

namespace ferrule::cuda {
namespace {

Status refuse(const char* what, DType dtype) {
  return Status(ErrorCode::unsupported, std::string(what) + " on the device takes f32, f16 and bf16, not " +
                                            std::string(dtype_name(dtype)));
}

std::uint64_t blocks_of(const Segment& segment) {
  // One even for an empty segment: its square is 0, and somebody has to write that.
  return std::max<std::uint64_t>(1, (segment.count + kSquareElements - 1) / kSquareElements);
}

Status launch_squares(DType dtype, const SquaresCall& call, Stream stream) {
  const Grid grid{static_cast<unsigned>(call.first_block[call.segment_count]), kSquareThreads};
  if (dtype == DType::f32) return launch(add_squares<F32>, grid, stream, call);
  if (dtype == DType::f16) return launch(add_squares<F16>, grid, stream, call);
  return launch(add_squares<Bf16>, grid, stream, call);
}

}  // namespace

Status keep_where_not_finite(const KeepArgs& args, Stream stream) {
  if (!is_compressible(args.dtype)) return {};  // no lossy codec takes the others
  const Grid grid{static_cast<unsigned>((args.count + kKeepElements - 1) / kKeepElements), kKeepThreads};
  if (args.dtype == DType::f32) return launch(keep_residual<F32>, grid, stream, args);
  if (args.dtype == DType::f16) return launch(keep_residual<F16>, grid, stream, args);
  return launch(keep_residual<Bf16>, grid, stream, args);
}

std::size_t sums_scratch_bytes(std::span<const Segment> segments) {
  std::size_t most_blocks = 0;
  for (std::size_t first = 0; first < segments.size(); first += kMostSegments) {
    std::size_t blocks = 0;
    for (const Segment& segment :
         segments.subspan(first, std::min<std::size_t>(kMostSegments, segments.size() - first))) {
      blocks += blocks_of(segment);
    }
    most_blocks = std::max(most_blocks, blocks);
  }
  return kMostSegments * sizeof(std::uint32_t) + most_blocks * sizeof(double);
}

Status sums_of_squares(std::span<const Segment> segments, DType dtype, double* squares, void* scratch,
                       Stream stream) {
  if (!is_compressible(dtype)) return refuse("a sum of squares", dtype);
  for (std::size_t first = 0; first < segments.size(); first += kMostSegments) {
    SquaresCall call{};
    call.segment_count = static_cast<unsigned>(std::min<std::size_t>(kMostSegments, segments.size() - first));
    for (unsigned i = 0; i < call.segment_count; ++i) {
      call.segments[i] = segments[first + i];
      call.first_block[i + 1] = call.first_block[i] + blocks_of(call.segments[i]);
    }
    call.squares = squares + first;
    call.done = static_cast<std::uint32_t*>(scratch);
    call.sums = reinterpret_cast<double*>(call.done + kMostSegments);
    FERRULE_RETURN_IF_ERROR(launch_squares(dtype, call, stream));
  }
  return {};
}

}  // namespace ferrule::cuda
