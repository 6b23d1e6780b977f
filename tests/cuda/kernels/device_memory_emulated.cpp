#include <gtest/gtest.h>

#include "kernels/device_memory.hpp"
#include "simt/launch.hpp"

namespace ferrule::cuda::testing {

struct DeviceBuffers::Copies {};

DeviceBuffers::DeviceBuffers() = default;
DeviceBuffers::~DeviceBuffers() = default;

void* DeviceBuffers::map(void* host, std::size_t, bool) { return host; }

void DeviceBuffers::finish() {
  for (const std::string& fault : simt::take_faults()) {
    if (fault_sink != nullptr) {
      fault_sink->push_back(fault);
    } else {
      ADD_FAILURE() << "the emulator: " << fault;
    }
  }
}

bool has_device() { return true; }
void choose_schedule(std::uint64_t seed) { simt::set_seed(seed); }

}  // namespace ferrule::cuda::testing
