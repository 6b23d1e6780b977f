// What goes wrong while a device works: peers that die, aborts, a device that breaks. No hang, a text, and a
// residual as it was.
#include <thread>

#include "cuda/device/device_world.hpp"

namespace ferrule::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::size_t kCount = 20000;
constexpr std::chrono::seconds kSoon{30};

class Failures : public DeviceTest {
 protected:
  static AllReduceOptions options(const Stream& stream, const Residual* residual) {
    AllReduceOptions options;
    options.codec = "int4";
    options.algorithm = "direct";
    options.residual = residual;
    options.stream = stream.get();
    options.timeout = std::chrono::seconds(20);
    return options;
  }
};

TEST_F(Failures, OfAPeerLeaveTheResidualAsItWas) {
  CommunicatorConfig config;
  config.fault = "die:rank=1,nth=3";
  auto comms = make_world(3, config);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    const Stream stream;
    const Residual residual = Residual::create_on_device(kCount).value();
    EXPECT_TRUE(residual.write(std::vector<float>(kCount, 0.125F)).ok());
    const DeviceBuffer buffer(kCount * sizeof(float));
    buffer.write(random_values(kCount, static_cast<unsigned>(rank)), stream.get());
    const Status status = comm.all_reduce(TensorView(buffer.floats(), kCount).on_device(), ReduceOp::sum,
                                          options(stream, &residual));
    EXPECT_EQ(status.code(), rank == 1 ? ErrorCode::aborted : ErrorCode::peer_lost) << status.text();
    EXPECT_THAT(status.text(), HasSubstr("all_reduce #"));
    EXPECT_EQ(read_residual(residual, kCount), std::vector<float>(kCount, 0.125F));
    if (rank == 1) const Communicator gone = std::move(comm);
  });
}

// The stream of one rank never gets to the input while the collective lasts.
TEST_F(Failures, AnAbortDoesNotWaitForTheInput) {
  for (const CommunicatorConfig& config : {CommunicatorConfig(), staged()}) {
    auto comms = make_world(2, config);
    const Stream late;
    fake_cuda::hold(late.get());
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      const Stream mine;
      const Stream& stream = rank == 0 ? late : mine;
      const DeviceBuffer buffer(kCount * sizeof(float));
      buffer.write(std::vector<float>(kCount, 1.0F), stream.get());
      auto work = comm.all_reduce_async(TensorView(buffer.floats(), kCount).on_device(), ReduceOp::sum,
                                        options(stream, nullptr));
      ASSERT_TRUE(work.ok()) << work.status().text();
      if (rank == 1) {
        EXPECT_EQ(work->wait(std::chrono::milliseconds(20)).code(), ErrorCode::timeout);
        comm.abort();
      }
      EXPECT_EQ(work->wait(kSoon).code(), ErrorCode::aborted);
      if (rank == 0) fake_cuda::release(late.get());
      EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    });
  }
}

TEST_F(Failures, ATimeoutSaysThatTheInputIsNotReady) {
  auto comms = make_world(1);
  const Stream late;
  fake_cuda::hold(late.get());
  const DeviceBuffer buffer(kCount * sizeof(float));
  AllReduceOptions given = options(late, nullptr);
  given.timeout = std::chrono::milliseconds(100);
  const Status status =
      comms[0].all_reduce(TensorView(buffer.floats(), kCount).on_device(), ReduceOp::sum, given);
  EXPECT_EQ(status.code(), ErrorCode::timeout);
  EXPECT_THAT(status.text(), HasSubstr("its own stream, which has not come to the input yet"));
  fake_cuda::release(late.get());
}

// At whatever moment the abort comes: kernels and copies under way, peers that read each other's device
// memory.
TEST_F(Failures, AbortsAtAnyTimeWhileKernelsRun) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    fake_cuda::shuffle(seed);
    auto comms = make_world(3, seed % 2 == 0 ? CommunicatorConfig() : staged());
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      const Stream stream;
      const Residual residual = Residual::create_on_device(kCount).value();
      const DeviceBuffer buffer(kCount * sizeof(float));
      buffer.write(random_values(kCount, static_cast<unsigned>(rank)), stream.get());
      auto work = comm.all_reduce_async(TensorView(buffer.floats(), kCount).on_device(), ReduceOp::sum,
                                        options(stream, &residual));
      ASSERT_TRUE(work.ok()) << work.status().text();
      if (rank == 2) {
        std::this_thread::sleep_for(std::chrono::microseconds(300 * seed));
        comm.abort();
      }
      const ErrorCode code = work->wait(kSoon).code();
      EXPECT_THAT(code, AnyOf(ErrorCode::aborted, ErrorCode::ok, ErrorCode::peer_lost));
      if (code != ErrorCode::ok) {
        EXPECT_EQ(read_residual(residual, kCount), std::vector<float>(kCount, 0.0F));
      }
      comm.abort();  // nothing of ours is read by others from here on
    });
  }
  fake_cuda::shuffle(0);
}

TEST_F(Failures, ABrokenDeviceEndsTheCollectiveOnAllRanks) {
  auto comms = make_world(2, staged());
  broken_ = true;
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    if (rank == 1) {  // a host rank, which learns of it
      std::vector<float> values(kCount, 1.0F);
      AllReduceOptions given;
      given.codec = "int4";
      given.algorithm = "direct";
      given.timeout = std::chrono::seconds(20);
      const Status status = comm.all_reduce({values.data(), kCount}, ReduceOp::sum, given);
      EXPECT_THAT(status.text(), HasSubstr("cudaErrorIllegalAddress"));
      return;
    }
    const Stream stream;
    const DeviceBuffer buffer(kCount * sizeof(float));
    fake_cuda::hold(stream.get());
    buffer.write(std::vector<float>(kCount, 1.0F), stream.get());
    auto work = comm.all_reduce_async(TensorView(buffer.floats(), kCount).on_device(), ReduceOp::sum,
                                      options(stream, nullptr));
    ASSERT_TRUE(work.ok()) << work.status().text();
    fake_cuda::break_device(cudaErrorIllegalAddress);
    const Status status = work->wait(kSoon);
    EXPECT_EQ(status.code(), ErrorCode::system) << status.text();
    EXPECT_THAT(status.text(), HasSubstr("all_reduce #"));
    EXPECT_THAT(status.text(), HasSubstr("cudaErrorIllegalAddress"));
  });
  comms.clear();
  fake_cuda::reset();
}

// One rank's stream is held until both have begun, so that the call fails while the collective runs.
TEST_F(Failures, OfSingleCallsOfCudaAreTold) {
  for (const char* function :
       {"cudaEventRecord", "cudaMemcpyAsync", "cudaStreamWaitEvent", "cudaEventQuery"}) {
    SCOPED_TRACE(function);
    auto comms = make_world(2, staged());
    std::vector<Stream> streams(2);
    std::vector<std::unique_ptr<DeviceBuffer>> buffers;
    std::vector<Work> works;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      fake_cuda::hold(streams[rank].get());
      buffers.push_back(std::make_unique<DeviceBuffer>(kCount * sizeof(float)));
      buffers[rank]->write(std::vector<float>(kCount, 1.0F), streams[rank].get());
      auto work = comms[rank].all_reduce_async(TensorView(buffers[rank]->floats(), kCount).on_device(),
                                               ReduceOp::sum, options(streams[rank], nullptr));
      ASSERT_TRUE(work.ok()) << work.status().text();
      works.push_back(std::move(work).value());
    }
    fake_cuda::fail_call(function, cudaErrorUnknown);
    for (const Stream& stream : streams) fake_cuda::release(stream.get());
    for (const Work& work : works) {
      const Status status = work.wait(kSoon);
      EXPECT_EQ(status.code(), ErrorCode::system);
      EXPECT_THAT(status.text(), HasSubstr("CUDA: "));
    }
    for (const Stream& stream : streams) EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  }
}

}  // namespace
}  // namespace ferrule::testing
