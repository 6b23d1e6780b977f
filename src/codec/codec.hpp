// The codec interface: a wire format and its arithmetic, as the executor sees it.
//
// Everything that a collective does with elements is one of two operations over a list of terms:
//   encode  add the terms in order (plus the residual), write wire bytes, keep the error as the new residual
//   decode  add the terms in order, store elements
// A term is either encoded bytes (a peer's contribution) or plain elements (this rank's own input). So
// `encode` with one plain term is the first encode, with {encoded, plain} it is the hop of a ring, with N
// terms it is the one-pass reduce of direct; `decode` with one encoded term is a copy, with {plain output,
// encoded} it is decode_add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferrule/codec_spec.hpp"
#include "ferrule/status.hpp"
#include "ferrule/types.hpp"

namespace ferrule::codec {

/// One contribution to a sum. `data` holds `count` elements of the call's dtype (plain, aligned to the
/// element), or encoded_bytes(count, dtype) wire bytes of any alignment (encoded).
struct Term {
  enum class Kind : std::uint8_t { plain, encoded };
  Kind kind = Kind::plain;
  const void* data = nullptr;
};

/// What becomes of the error of a lossy encode. The residual is fp32, one value an element, in units of the
/// sum.
struct Feedback {
  /// The residual before this encode; null: zeros.
  const float* before = nullptr;
  /// Where the residual after this encode goes; null: the error is dropped. May equal `before`, must not
  /// overlap it otherwise. A block that holds a NaN or Inf keeps its residual: after = before.
  float* after = nullptr;
  /// true: encode sum + before, after = sum + before - decoded. false (the sum is shared by several ranks and
  /// only one of them keeps its error): encode the sum alone, after = before + (sum - decoded).
  bool add = true;
};

/// Counter-based random bits for stochastic rounding: a function of key and element index only, so never of
/// slice size, alignment, SIMD target or device.
struct Noise {
  std::uint64_t key = 0;  ///< mix(seed, step, tensor, rank): see noise_key().
  std::uint64_t first_element =
      0;  ///< index in the tensor of the call's first element; a multiple of the block.
};

/// `out` must hold encoded_bytes(count, dtype) and overlap no term, except that the identity codec may write
/// over a plain term. count may be 0. `terms` is never empty.
struct EncodeArgs {
  std::span<const Term> terms;
  std::size_t count = 0;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  Feedback feedback;
  Noise noise;
  /// The value is a result that every rank will decode to elements: the error is measured against what they
  /// will store (rounded to dtype), and the identity codec divides here for avg.
  bool final = false;
  std::uint32_t world = 1;  ///< divisor of avg
  std::byte* out = nullptr;
};

/// `out` holds `count` elements; it may be the same memory as a plain term. With `finish`, the sum is a
/// result: avg divides it by `world` (lossy codecs, and the identity codec when there are several terms; a
/// single encoded term of the identity codec was divided by the final encode).
struct DecodeArgs {
  std::span<const Term> terms;
  std::size_t count = 0;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  bool finish = false;
  std::uint32_t world = 1;
  void* out = nullptr;
};

/// A codec with its parameters fixed. Immutable, so safe to use from any number of threads. No operation
/// allocates. Results are bit-identical on every SIMD target.
class Codec {
 public:
  virtual ~Codec() = default;

  /// Canonical text: parse(spec()) gives an equal codec. E.g. "int4:block=128".
  virtual const std::string& spec() const = 0;
  /// Elements that share a scale; slices and chunks are cut at multiples of it.
  virtual std::size_t block() const = 0;
  /// decode(encode(x)) == x for every bit pattern.
  virtual bool exact() const = 0;
  /// The wire bytes are the elements themselves, so that encode and decode of one term are copies.
  virtual bool identity() const = 0;
  virtual bool supports(DType dtype, ReduceOp op) const = 0;
  /// Exact size of `count` elements on the wire. Monotonic in count, 0 for 0; for multiples of the block
  /// additive.
  virtual std::size_t encoded_bytes(std::size_t count, DType dtype) const = 0;

  virtual void encode(const EncodeArgs& args) const = 0;
  /// Returns whether every decoded value of the encoded terms was finite (always true for exact codecs). Any
  /// bytes of the right length are accepted: a peer's bytes cannot make it misbehave.
  virtual bool decode(const DecodeArgs& args) const = 0;

  /// The codecs of a list with one for each level of a topology, innermost first; empty for a single codec.
  virtual std::span<const std::shared_ptr<const Codec>> levels() const { return {}; }

  /// Largest error of one encode of a block, relative to the block's largest magnitude. 0 for exact codecs.
  virtual double relative_bound() const = 0;
  /// Absolute floor of that error (fp32 underflow): error <= relative_bound() * amax + absolute_bound().
  virtual double absolute_bound() const = 0;
};

/// A family of codecs under some names; one per file, listed in FERRULE_CODECS (CMakeLists.txt).
struct CodecFamily {
  std::vector<std::string> names;
  Result<std::unique_ptr<const Codec>> (*make)(const CodecSpec& spec);
};

/// All registered families.
std::span<const CodecFamily> families();
/// All codec names, in order of registration.
std::vector<std::string> codec_names();
/// Finds the family by name and lets it read its parameters. The error names the bad word and what is
/// allowed.
Result<std::unique_ptr<const Codec>> make_codec(const CodecSpec& spec);
/// The same from text; "none/int4" makes a list of codecs, one for each level of a topology (level_list.hpp).
Result<std::unique_ptr<const Codec>> make_codec(std::string_view text);

/// Key of the random bits of one (seed, step, tensor, rank).
std::uint64_t noise_key(std::uint64_t seed, std::uint64_t step, std::uint64_t tensor, std::uint64_t rank);

}  // namespace ferrule::codec
