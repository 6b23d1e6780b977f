// What a call on device memory refuses, and how it says so.
#include "cuda/device/device_world.hpp"

namespace ferrule::testing {
namespace {

using ::testing::HasSubstr;

class Calls : public DeviceTest {
 protected:
  static constexpr std::size_t kCount = 1000;

  /// A world of one, which waits for nobody.
  static Status call(const void* send, void* recv, cudaStream_t stream, const Residual* residual = nullptr) {
    auto comms = make_world(1);
    AllReduceOptions options;
    options.codec = "int4";
    options.stream = stream;
    options.residual = residual;
    return comms[0].all_reduce(send, TensorView(static_cast<float*>(recv), kCount).on_device(), ReduceOp::sum,
                               options);
  }
};

void expect_refused(const Status& status, ErrorCode code, const std::string& text) {
  EXPECT_EQ(status.code(), code) << status.text();
  EXPECT_THAT(status.text(), HasSubstr(text));
}

TEST_F(Calls, RefuseMemoryThatIsNotTheDevices) {
  const Stream stream;
  const DeviceBuffer buffer(kCount * sizeof(float));
  std::vector<float> host(kCount);
  expect_refused(call(host.data(), host.data(), stream.get()), ErrorCode::invalid_argument,
                 "send is in host memory, and the call says device memory");
  expect_refused(call(buffer.data(), host.data(), stream.get()), ErrorCode::invalid_argument,
                 "recv is in host memory");
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, kCount * sizeof(float), cudaHostAllocPortable), cudaSuccess);
  expect_refused(call(pinned, pinned, stream.get()), ErrorCode::invalid_argument,
                 "send is in pinned host memory");
  ASSERT_EQ(cudaFreeHost(pinned), cudaSuccess);
  void* managed = nullptr;
  ASSERT_EQ(cudaMallocManaged(&managed, kCount * sizeof(float), cudaMemAttachGlobal), cudaSuccess);
  expect_refused(call(managed, managed, stream.get()), ErrorCode::invalid_argument,
                 "send is in managed memory");
  ASSERT_EQ(cudaFree(managed), cudaSuccess);
}

TEST_F(Calls, RefuseTheWrongDevice) {
  begin({.devices = 2});
  auto comms = make_world(1);
  const DeviceBuffer here(kCount * sizeof(float));
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const DeviceBuffer there(kCount * sizeof(float));
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const TensorView view = TensorView(here.floats(), kCount).on_device();
  expect_refused(comms[0].all_reduce(there.data(), view), ErrorCode::invalid_argument,
                 "send is on device 1, recv on device 0");
  EXPECT_TRUE(comms[0].all_reduce(view).ok());
  expect_refused(comms[0].all_reduce(TensorView(there.floats(), kCount).on_device()),
                 ErrorCode::invalid_argument, "this communicator has worked on device 0");
  const Residual residual = Residual::create_on_device(kCount, 1).value();
  AllReduceOptions options;
  options.codec = "int4";
  options.residual = &residual;
  expect_refused(comms[0].all_reduce(view, ReduceOp::sum, options), ErrorCode::invalid_argument,
                 "the residual is on device 1, the tensor on device 0");
  EXPECT_THAT(Residual::create_on_device(kCount, 2).status().text(), HasSubstr("there is no CUDA device 2"));
}

TEST_F(Calls, RefuseAResidualThatIsElsewhere) {
  const Stream stream;
  const DeviceBuffer buffer(kCount * sizeof(float));
  const Residual on_host = Residual::create(kCount).value();
  expect_refused(call(buffer.data(), buffer.data(), stream.get(), &on_host), ErrorCode::invalid_argument,
                 "the residual is in host memory, the tensor on device 0");
  const Residual on_device = Residual::create_on_device(kCount).value();
  std::vector<float> host(kCount);
  auto comms = make_world(1);
  AllReduceOptions options;
  options.residual = &on_device;
  expect_refused(comms[0].all_reduce({host.data(), kCount}, ReduceOp::sum, options),
                 ErrorCode::invalid_argument, "the residual is in device memory, the tensor in host memory");
  const Codec codec = Codec::create("int4").value();
  std::vector<std::byte> wire(codec.encoded_bytes(kCount).value());
  expect_refused(codec.encode({host.data(), kCount}, wire, &on_device), ErrorCode::invalid_argument,
                 "a codec by itself works on host memory");
}

TEST_F(Calls, RefuseAStreamThatIsBeingCaptured) {
  const Stream stream;
  const DeviceBuffer buffer(kCount * sizeof(float));
  ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal), cudaSuccess);
  expect_refused(call(buffer.data(), buffer.data(), stream.get()), ErrorCode::unsupported,
                 "the stream is being captured in a CUDA graph");
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess) << "the call has spoilt the capture";
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_TRUE(call(buffer.data(), buffer.data(), stream.get()).ok());
}

TEST_F(Calls, SayWhyThereIsNoDevice) {
  begin({.status = cudaErrorInsufficientDriver});
  std::vector<float> host(kCount);
  expect_refused(call(host.data(), host.data(), nullptr), ErrorCode::system, "CUDA: asking whose memory");
  EXPECT_EQ(Residual::create_on_device(kCount).status().code(), ErrorCode::system);
}

TEST_F(Calls, WithoutCudaInTheBuildSayThat) {
  executor::set_device_runtime(nullptr);
  std::vector<float> host(kCount);
  expect_refused(call(host.data(), host.data(), nullptr), ErrorCode::unsupported,
                 "this build of the library has no CUDA");
  EXPECT_EQ(Residual::create_on_device(kCount).status().code(), ErrorCode::unsupported);
}

TEST_F(Calls, OnNothingNeedNoDevice) {
  auto comms = make_world(2);
  on_all_ranks(comms, [](int, Communicator& comm) {
    EXPECT_TRUE(comm.all_reduce(TensorView(static_cast<float*>(nullptr), 0).on_device()).ok());
  });
}

TEST_F(Calls, SayWhatMemoryIsShort) {
  const Stream stream;
  const DeviceBuffer buffer(kCount * sizeof(float));
  fake_cuda::fail_call("cudaMalloc", cudaErrorMemoryAllocation);
  EXPECT_THAT(Residual::create_on_device(kCount).status().text(), HasSubstr("could not allocate 4000 bytes"));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess) << "the caller's own checks must not find it";
  fake_cuda::fail_call("cudaMalloc", cudaErrorMemoryAllocation);
  expect_refused(call(buffer.data(), buffer.data(), stream.get()), ErrorCode::system,
                 "memory for wire bytes");
  EXPECT_TRUE(call(buffer.data(), buffer.data(), stream.get()).ok()) << "the next may succeed";
}

TEST_F(Calls, ReadAndWriteResiduals) {
  const Residual residual = Residual::create_on_device(3).value();
  EXPECT_EQ(read_residual(residual, 3), std::vector<float>(3, 0.0F));
  EXPECT_TRUE(residual.write(std::vector<float>{1, 2, 3}).ok());
  EXPECT_EQ(read_residual(residual, 3), (std::vector<float>{1, 2, 3}));
  std::vector<float> two(2);
  expect_refused(residual.read(two), ErrorCode::invalid_argument, "the residual has 3 elements, not 2");
}

}  // namespace
}  // namespace ferrule::testing
