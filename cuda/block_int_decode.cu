#include "codec/format/block_int.hpp"
#include "cuda/block_int.hpp"
#include "cuda/scaled_block_launch.cuh"

namespace ferrule::cuda {

DecodeLaunch block_int_decode(int bits) {
  constexpr DecodeLaunch kLaunches[] = {
      decode_scaled<format::BlockInt<2>>, decode_scaled<format::BlockInt<3>>,
      decode_scaled<format::BlockInt<4>>, decode_scaled<format::BlockInt<5>>,
      decode_scaled<format::BlockInt<6>>, decode_scaled<format::BlockInt<7>>,
      decode_scaled<format::BlockInt<8>>};
  return kLaunches[bits - 2];
}

}  // namespace ferrule::cuda
