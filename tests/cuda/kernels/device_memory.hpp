// Memory that kernels can reach. In the emulator that is the test's own, guard pages and all; on a GPU it is
// a copy with the same alignment, brought back afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ferrule::cuda::testing {

/// The buffers of one call. The same host address twice is the same buffer.
class DeviceBuffers {
 public:
  DeviceBuffers();
  ~DeviceBuffers();
  DeviceBuffers(const DeviceBuffers&) = delete;
  DeviceBuffers& operator=(const DeviceBuffers&) = delete;

  /// Where kernels find the bytes at `host`; null for null.
  template <class T>
  const T* read(const T* host, std::size_t bytes) {
    return static_cast<const T*>(map(const_cast<T*>(host), bytes, false));
  }
  /// The same, and what kernels write there comes back with finish().
  template <class T>
  T* write(T* host, std::size_t bytes) {
    return static_cast<T*>(map(host, bytes, true));
  }
  /// Waits for the kernels. A fault or an error of theirs is a failed test.
  void finish();

 private:
  void* map(void* host, std::size_t bytes, bool written);
  struct Copies;
  std::unique_ptr<Copies> copies_;
};

/// Where faults go instead of failing the test, while it is not null. For tests that plant them.
inline std::vector<std::string>* fault_sink = nullptr;

/// Whether there is a device to run on.
bool has_device();
/// Chooses the schedule of the launches to come, where that can be chosen.
void choose_schedule(std::uint64_t seed);

}  // namespace ferrule::cuda::testing
