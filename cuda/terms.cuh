// The terms of a call, as kernels get them: by value, in the parameters of the launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/codec.hpp"
#include "cuda/codec_kernels.hpp"
#include "cuda/platform.hpp"

namespace ferrule::cuda {

/// 2 KiB and a bit; a launch may carry 4 KiB everywhere.
struct Terms {
  const void* data[kMostTerms];
  std::uint32_t plain[kMostTerms / 32];  ///< a bit for each term
  unsigned count;

  __host__ __device__ bool is_plain(unsigned term) const {
    return ((plain[term / 32] >> (term % 32)) & 1u) != 0;
  }
};

/// At most kMostTerms of them.
inline Terms make_terms(std::span<const codec::Term> from) {
  Terms terms{};
  terms.count = static_cast<unsigned>(from.size());
  for (unsigned i = 0; i < terms.count; ++i) {
    terms.data[i] = from[i].data;
    if (from[i].kind == codec::Term::Kind::plain) terms.plain[i / 32] |= 1u << (i % 32);
  }
  return terms;
}

}  // namespace ferrule::cuda
