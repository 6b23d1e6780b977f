// Two streams write the same place, and no event orders them. Under ThreadSanitizer this program must fail;
// with an argument the event is there, and it must not.
#include <cuda_runtime_api.h>

#include "control.hpp"

int main(int arguments, char** /*texts*/) {
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  cudaEvent_t event = nullptr;
  void* memory = nullptr;
  if (cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking) != cudaSuccess ||
      cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking) != cudaSuccess ||
      cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess ||
      cudaMalloc(&memory, sizeof(int)) != cudaSuccess) {
    return 2;
  }
  auto* value = static_cast<int*>(memory);
  fake_cuda::enqueue_kernel(first, "one", [=] { *value = 1; });
  if (arguments > 1) {
    cudaEventRecord(event, first);
    cudaStreamWaitEvent(second, event, 0);
  }
  fake_cuda::enqueue_kernel(second, "two", [=] { *value = 2; });
  cudaStreamSynchronize(first);
  cudaStreamSynchronize(second);
  cudaEventDestroy(event);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  cudaFree(memory);
  return fake_cuda::reset().empty() ? 0 : 3;
}
