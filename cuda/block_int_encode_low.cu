#include "codec/format/block_int.hpp"
#include "cuda/block_int.hpp"
#include "cuda/scaled_block_launch.cuh"

namespace ferrule::cuda {

EncodeLaunch low_encode(int bits) {
  constexpr EncodeLaunch kLaunches[] = {encode_scaled<format::BlockInt<2>>,
                                        encode_scaled<format::BlockInt<3>>,
                                        encode_scaled<format::BlockInt<4>>};
  return kLaunches[bits - 2];
}

}  // namespace ferrule::cuda
