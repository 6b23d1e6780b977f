#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "collectives/verify/replay.hpp"

namespace ferrule::collectives::verifier {
namespace {

// `has` is ascending with repetitions.
void check_contributors(const std::vector<std::int32_t>& has, std::int32_t rank, std::size_t chunk,
                        const Outcome& outcome, Findings& findings) {
  for (std::int32_t of = 0; of < static_cast<std::int32_t>(outcome.outputs.size()); ++of) {
    const auto [first, last] = std::equal_range(has.begin(), has.end(), of);
    const std::ptrdiff_t due = outcome.contract.brings(of, static_cast<std::uint32_t>(chunk)) ? 1 : 0;
    if (last - first == due) continue;
    findings.add(
        first == last ? Fault::contribution_missing : Fault::contribution_repeated, {rank},
        fmt::format("the output of chunk {} has the input of rank {} {} times", chunk, of, last - first));
  }
}

void check_replicas(const Outcome& outcome, Findings& findings) {
  for (std::size_t rank = 1; rank < outcome.outputs.size(); ++rank) {
    for (std::size_t chunk = 0; chunk < outcome.outputs[rank].size(); ++chunk) {
      const Value& here = outcome.outputs[rank][chunk];
      const std::int32_t holder = outcome.first_to_get(chunk);
      if (here.empty() || holder < 0) continue;
      const Value& first = outcome.outputs[static_cast<std::size_t>(holder)][chunk];
      if (here == first) continue;
      findings.add(Fault::replicas_differ, {static_cast<std::int32_t>(rank)},
                   fmt::format("the output of chunk {} is {}, and on rank {} {}", chunk,
                               outcome.symbols.describe(here), holder, outcome.symbols.describe(first)));
    }
  }
}

void check_keepers(const Outcome& outcome, Findings& findings) {
  for (const Encoded& encoded : outcome.symbols.all()) {
    if (encoded.keepers.empty()) {
      findings.add(Fault::error_dropped, encoded.place, "no rank keeps the error of this value");
    } else if (encoded.keepers.size() > 1) {
      const auto [low, high] = std::minmax_element(encoded.keepers.begin(), encoded.keepers.end(),
                                                   [](Place a, Place b) { return a.rank < b.rank; });
      findings.add(Fault::error_kept_twice, *high,
                   fmt::format("{} keeps the error of this value too", Findings::where(*low)));
    }
  }
}

void check_noise(const Outcome& outcome, Findings& findings) {
  std::map<std::pair<std::uint32_t, std::int32_t>, Place> users;  // by chunk and noise rank
  for (const Encoded& encoded : outcome.symbols.all()) {
    const auto key = std::pair{encoded.recipe.chunk, encoded.recipe.noise_rank};
    const auto [user, is_new] = users.try_emplace(key, encoded.place);
    if (is_new) continue;
    findings.add(Fault::noise_shared, encoded.place,
                 fmt::format("{} rounds another value of the chunk with the same random bits",
                             Findings::where(user->second)));
  }
}

}  // namespace

void check_outcome(const Outcome& outcome, Findings& findings) {
  for (std::size_t rank = 0; rank < outcome.outputs.size(); ++rank) {
    for (std::size_t chunk = 0; chunk < outcome.outputs[rank].size(); ++chunk) {
      const Value& output = outcome.outputs[rank][chunk];
      if (!outcome.contract.gets(static_cast<std::int32_t>(rank), static_cast<std::uint32_t>(chunk)))
        continue;
      if (rank > 0 && output == outcome.outputs[0][chunk]) continue;  // as good or bad as that of rank 0
      check_contributors(outcome.symbols.contributors(output), static_cast<std::int32_t>(rank), chunk,
                         outcome, findings);
    }
  }
  check_replicas(outcome, findings);
  check_keepers(outcome, findings);
  check_noise(outcome, findings);
}

}  // namespace ferrule::collectives::verifier
