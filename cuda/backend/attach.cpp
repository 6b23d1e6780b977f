#include <memory>

#include "communicator/devices.hpp"
#include "cuda/backend/runtime.hpp"

namespace ferrule::communicator {

void attach_devices() {
  // Never destroyed: residuals and communicators of static objects may end after it.
  static executor::DeviceRuntime* const runtime = [] {
    executor::DeviceRuntime* made = cuda::make_runtime().release();
    executor::set_device_runtime(made);
    return made;
  }();
  static_cast<void>(runtime);
}

}  // namespace ferrule::communicator
