// The fingerprint is FNV-1a (64 bits) over a canonical serialisation: version, name, collective (unless it is
// an all-reduce), root and world, the topology where the algorithm uses it, then per schedule its rank,
// chunks and slots and all fields of all steps, integers as little-endian bytes.
//
// Worlds up to kAllRanks: the schedules of all ranks, so any change to any of them changes it. Larger worlds:
// a fixed sample of ranks, the first and the last among them. A rank would otherwise build N schedules of
// O(N) steps to join a job of N ranks. About 1 ms for 64 ranks of `direct`, the longest schedule.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

// Raise it when the meaning of a step changes while its fields stay the same.
constexpr std::uint32_t kVersion = 2;
constexpr std::int32_t kAllRanks = 64;
constexpr std::int32_t kSampledRanks = 8;

class Fnv1a {
 public:
  void add(std::uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3; }
  void add(std::uint32_t word) {
    for (int shift = 0; shift < 32; shift += 8) add(static_cast<std::uint8_t>(word >> shift));
  }
  void add(std::int32_t word) { add(static_cast<std::uint32_t>(word)); }
  void add(std::string_view text) {
    add(static_cast<std::uint32_t>(text.size()));
    for (const char c : text) add(static_cast<std::uint8_t>(c));
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

void add(Fnv1a& hash, const Step& step) {
  hash.add(static_cast<std::uint8_t>(step.operation));
  hash.add(static_cast<std::uint8_t>(step.error));
  hash.add(step.level);
  hash.add(step.chunk);
  hash.add(step.slot);
  hash.add(step.from);
  hash.add(step.peer);
  hash.add(step.noise_rank);
}

void add(Fnv1a& hash, const Schedule& schedule) {
  hash.add(schedule.rank);
  hash.add(schedule.world);
  hash.add(schedule.chunks);
  hash.add(schedule.slots);
  hash.add(static_cast<std::uint32_t>(schedule.steps.size()));
  for (const Step& step : schedule.steps) add(hash, step);
}

// The i-th of `count` ranks spread evenly over the world, both ends included.
std::int32_t sampled_rank(std::int32_t i, std::int32_t count, std::int32_t world) {
  if (count == world) return i;
  return static_cast<std::int32_t>(std::int64_t{i} * (world - 1) / (count - 1));
}

}  // namespace

std::uint64_t fingerprint(const AlgorithmDesc& algorithm, const Topology& topology, std::int32_t root) {
  const std::int32_t world = topology.world();
  Fnv1a hash;
  hash.add(kVersion);
  hash.add(algorithm.name);
  if (algorithm.collective != Collective::all_reduce) hash.add(name(algorithm.collective));
  if (has_root(algorithm.collective)) hash.add(root);
  hash.add(world);
  if (algorithm.uses_topology()) hash.add(std::string_view(topology.text()));
  const std::int32_t count = world <= kAllRanks ? world : kSampledRanks;
  for (std::int32_t i = 0; i < count; ++i) {
    add(hash, build(algorithm, sampled_rank(i, count, world), topology, root));
  }
  return hash.value();
}

}  // namespace ferrule::collectives
