#include "device.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace ferrule::bench {

std::string device_name() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return {};
  cudaDeviceProp properties{};
  must(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return properties.name;
}

void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "cuda_bench: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
  must(cudaMalloc(&data_, bytes), "cudaMalloc");
}
DeviceMemory::~DeviceMemory() { cudaFree(data_); }

Timer::Timer(std::size_t flush_bytes) : flush_(flush_bytes) {
  must(cudaStreamCreate(&stream_), "cudaStreamCreate");
  must(cudaEventCreate(&begin_), "cudaEventCreate");
  must(cudaEventCreate(&end_), "cudaEventCreate");
}

Timer::~Timer() {
  cudaEventDestroy(end_);
  cudaEventDestroy(begin_);
  cudaStreamDestroy(stream_);
}

double Timer::timed_us(const std::function<void()>& call, int repeats) {
  must(cudaEventRecord(begin_, stream_), "cudaEventRecord");
  for (int i = 0; i < repeats; ++i) call();
  must(cudaEventRecord(end_, stream_), "cudaEventRecord");
  must(cudaEventSynchronize(end_), "a kernel");
  float milliseconds = 0;
  must(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
  return 1000.0 * static_cast<double>(milliseconds) / repeats;
}

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

double Timer::cold_us(const std::function<void()>& call, int rounds) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    must(cudaMemsetAsync(flush_.as<void>(), i, flush_.bytes(), stream_), "cudaMemsetAsync");
    times.push_back(timed_us(call, 1));
  }
  return median(times);
}

double Timer::warm_us(const std::function<void()>& call, int rounds, int repeats) {
  timed_us(call, 2);
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) times.push_back(timed_us(call, repeats));
  return median(times);
}

}  // namespace ferrule::bench
