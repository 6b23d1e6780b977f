// The example of docs/cuda.md.
#include "cuda/device/device_world.hpp"

ferrule::Status reduce(const ferrule::Communicator& comm, float* gradient, std::size_t count,
                       const ferrule::Residual& residual, cudaStream_t stream);

namespace ferrule::testing {
namespace {

class Page : public DeviceTest {};

TEST_F(Page, ItsExampleReducesGradients) {
  constexpr std::size_t kCount = 1000;
  auto comms = make_world(2);
  on_all_ranks(comms, [](int, Communicator& comm) {
    const Stream stream;
    const Residual residual = Residual::create_on_device(kCount).value();
    const DeviceBuffer gradient(kCount * sizeof(float));
    gradient.write(std::vector<float>(kCount, 7.0F), stream.get());
    const Status status = reduce(comm, gradient.floats(), kCount, residual, stream.get());
    ASSERT_TRUE(status.ok()) << status.text();
    for (const float value : gradient.read<float>(stream.get())) ASSERT_NEAR(value, 7.0F, 0.01F);
  });
}

}  // namespace
}  // namespace ferrule::testing
