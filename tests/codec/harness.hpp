// Runs one codec through every operation on guarded, misaligned buffers and keeps all that it produced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/codec.hpp"
#include "codec/vectors.hpp"

namespace ferrule::codec::testing {

struct Case {
  DType dtype = DType::f32;
  std::size_t length = 0;
  Values values = Values::normal;
  std::size_t wire_slack = 0;     ///< bytes between the wire bytes and the unmapped page: 0..15
  std::size_t element_slack = 0;  ///< elements between the plain elements and the unmapped page: 0..3

  std::string describe() const;
};

/// The codec; a failed make is a failed test.
std::unique_ptr<const Codec> make_or_fail(const std::string& spec);

/// `values` rounded to dtype, as bytes.
std::vector<std::byte> to_elements(std::span<const float> values, DType dtype);
/// Elements of dtype as fp32.
std::vector<float> to_floats(std::span<const std::byte> elements, DType dtype);

/// What came out of an operation.
struct Encoded {
  std::vector<std::byte> wire;
  std::vector<float> residual;  ///< empty without feedback
};
struct Decoded {
  std::vector<std::byte> elements;
  bool finite = true;
};

enum class Keep { nothing, add, charge };

/// Terms of one operation: elements (plain) and wire bytes (encoded), in the order given.
struct Input {
  Term::Kind kind;
  std::vector<std::byte> bytes;
};

struct EncodeOptions {
  Keep keep = Keep::nothing;
  std::vector<float> before;  ///< with keep: as many as the length
  ReduceOp op = ReduceOp::sum;
  bool final = false;
  std::uint32_t world = 1;
  Noise noise;
  bool in_place_residual = true;
};

struct DecodeOptions {
  ReduceOp op = ReduceOp::sum;
  bool finish = false;
  std::uint32_t world = 1;
  int in_place_of = -1;  ///< the plain term whose memory is also the output
};

/// One call on guarded memory; a write around any buffer, or to an input, is a failed test.
Encoded run_encode(const Codec& codec, const Case& at, const std::vector<Input>& terms,
                   const EncodeOptions& options = {});
Decoded run_decode(const Codec& codec, const Case& at, const std::vector<Input>& terms,
                   const DecodeOptions& options = {});

/// A named result of one operation.
struct Entry {
  std::string operation;
  std::vector<std::byte> bytes;
};

/// Every operation on one case: first encodes with each kind of feedback, hops, reductions of several terms,
/// copies, decode_add, averages. Two implementations of a codec are equal if their transcripts are.
std::vector<Entry> transcript(const Codec& codec, const Case& at);

/// Names the first operation whose bytes differ; empty if the transcripts are equal.
std::string first_difference(const std::vector<Entry>& a, const std::vector<Entry>& b);

}  // namespace ferrule::codec::testing
