#include "codec/format/block_int.hpp"
#include "cuda/block_int.hpp"
#include "cuda/scaled_block_launch.cuh"

namespace ferrule::cuda {

EncodeLaunch high_encode(int bits) {
  constexpr EncodeLaunch kLaunches[] = {
      encode_scaled<format::BlockInt<5>>, encode_scaled<format::BlockInt<6>>,
      encode_scaled<format::BlockInt<7>>, encode_scaled<format::BlockInt<8>>};
  return kLaunches[bits - 5];
}

}  // namespace ferrule::cuda
