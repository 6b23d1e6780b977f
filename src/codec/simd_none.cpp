// For builds without vector code.
#include "codec/kernels.hpp"

namespace ferrule::codec {

const Accelerator* find_accelerator(const BlockShape&) { return nullptr; }

}  // namespace ferrule::codec
