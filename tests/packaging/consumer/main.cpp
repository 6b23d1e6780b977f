// Two ranks, threads of this process, sum 1 and 2, through the C++ layer. Exit status 0 if both hold 3.
#include <cstdio>
#include <thread>
#include <vector>

#include "ferrule/ferrule.hpp"

namespace {

bool reduce(const ferrule::Communicator& comm) {
  std::vector<float> values(1000, static_cast<float>(comm.rank() + 1));
  const ferrule::Status status = comm.all_reduce({values.data(), values.size()});
  if (!status.ok()) std::fprintf(stderr, "consumer: %s\n", status.text().c_str());
  return status.ok() && values == std::vector<float>(values.size(), 3);
}

}  // namespace

int main() {
  const auto comms = ferrule::Communicator::local(2);
  if (!comms) {
    std::fprintf(stderr, "consumer: %s\n", comms.status().text().c_str());
    return 1;
  }
  bool good[2] = {};
  {
    std::jthread other([&] { good[1] = reduce((*comms)[1]); });
    good[0] = reduce((*comms)[0]);
  }
  if (!good[0] || !good[1]) return 1;
  std::printf("consumer: 2 ranks agree on 3 (Ferrule %s)\n", ferruleVersion());
  return 0;
}
