// The CUDA devices of this process.
#pragma once

#include <memory>

#include "executor/backend.hpp"

namespace ferrule::cuda {

/// For executor::set_device_runtime(), while it lives. Without a driver or a device its functions say so.
std::unique_ptr<executor::DeviceRuntime> make_runtime();

}  // namespace ferrule::cuda
