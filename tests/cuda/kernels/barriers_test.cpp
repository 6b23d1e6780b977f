// Planted faults, kept for good: each barrier of each kernel is taken out in turn, and the vectors must
// notice. The barriers are found in the sources, so a new kernel's are among them; a kernel of a new codec
// needs a word in kSpecs.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "codec/harness.hpp"
#include "cuda/codec_kernels.hpp"
#include "kernels/device_codec.hpp"
#include "kernels/device_memory.hpp"
#include "simt/launch.hpp"

namespace ferrule::cuda::testing {
namespace {

using namespace codec::testing;

/// Between them they pass every line of the kernels that has a barrier.
constexpr const char* kSpecs[] = {"int3:block=96", "int4", "int7:block=64", "fp16", "none"};

struct Vector {
  std::unique_ptr<const codec::Codec> device;
  Case at;
  std::vector<Entry> expected;
};

std::vector<Vector> make_vectors() {
  std::vector<Vector> vectors;
  for (const char* spec : kSpecs) {
    const std::shared_ptr<const codec::Codec> host = make_or_fail(spec);
    for (const std::size_t length : {1024 + 3 * host->block() + 5, host->block() - 1}) {
      Case at{DType::f32, length, Values::normal, 3, 1};
      vectors.push_back({on_device(host), at, transcript(*host, at)});
    }
  }
  return vectors;
}

std::string copies_wrongly() {
  std::vector<std::uint8_t> from(3000);
  std::iota(from.begin(), from.end(), std::uint8_t{0});
  std::vector<std::uint8_t> to(from.size());
  static_cast<void>(copy(from.data() + 1, 2990, to.data() + 6, nullptr));
  return std::memcmp(from.data() + 1, to.data() + 6, 2990) == 0 ? "" : "a copy";
}

std::string adds_squares_wrongly() {
  const std::vector<float> ones(9000, 1.0f);
  const Segment segments[] = {{ones.data(), 9000}, {ones.data(), 100}};
  double squares[2] = {};
  std::vector<double> scratch(sums_scratch_bytes(segments) / sizeof(double) + 1);
  static_cast<void>(sums_of_squares(segments, DType::f32, squares, scratch.data(), nullptr));
  return squares[0] == 9000 && squares[1] == 100 ? "" : "a sum of squares";
}

/// What goes wrong first, or "".
std::string find_fault(const std::vector<Vector>& vectors) {
  std::vector<std::string> faults;
  fault_sink = &faults;
  std::string found;
  for (std::uint64_t schedule = 0; schedule < 3 && found.empty() && faults.empty(); ++schedule) {
    choose_schedule(schedule);
    found = copies_wrongly() + adds_squares_wrongly();
    for (const Vector& vector : vectors) {
      if (!found.empty()) break;
      found = first_difference(transcript(*vector.device, vector.at), vector.expected);
      if (!found.empty()) found = vector.device->spec() + ", " + found;
    }
    for (std::string& fault : simt::take_faults()) faults.push_back(std::move(fault));
  }
  fault_sink = nullptr;
  if (found.empty() && !faults.empty()) found = faults.front();
  return found;
}

struct Barrier {
  std::string file;
  int line;
};

std::vector<Barrier> barriers_in_sources() {
  std::vector<Barrier> barriers;
  for (const auto& entry : std::filesystem::directory_iterator(FERRULE_CUDA_SOURCE_DIR)) {
    if (entry.path().extension() != ".cuh") continue;
    std::ifstream file(entry.path());
    std::string text;
    for (int line = 1; std::getline(file, text); ++line) {
      const std::string code = text.substr(0, text.find("//"));
      if (code.find("__syncthreads") != std::string::npos || code.find("__syncwarp") != std::string::npos) {
        barriers.push_back({entry.path().filename().string(), line});
      }
    }
  }
  return barriers;
}

TEST(Barriers, WithAllOfThemNothingIsWrong) { EXPECT_EQ(find_fault(make_vectors()), ""); }

TEST(Barriers, WithoutAnyOneOfThemSomethingIs) {
  const std::vector<Vector> vectors = make_vectors();
  const std::vector<Barrier> barriers = barriers_in_sources();
  ASSERT_GE(barriers.size(), 10u);
  for (const Barrier& barrier : barriers) {
    simt::remove_barriers_at("/" + barrier.file, barrier.line);
    const std::string found = find_fault(vectors);
    const std::uint64_t passed = simt::passed_removed_barriers();
    simt::remove_barriers_at("", 0);
    EXPECT_GT(passed, 0u) << barrier.file << ":" << barrier.line
                          << " is never reached: add a codec to kSpecs";
    EXPECT_NE(found, "") << "the barrier at " << barrier.file << ":" << barrier.line
                         << " can be removed without anybody noticing";
  }
}

}  // namespace
}  // namespace ferrule::cuda::testing
