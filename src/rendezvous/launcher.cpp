#include "rendezvous/launcher.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/text_values.hpp"
#include "rendezvous/launcher_places.hpp"

namespace ferrule::rendezvous {
namespace {

Status contradiction(std::string text) { return Status(ErrorCode::invalid_argument, std::move(text)); }

// The names of a launcher's variables; the second size name is an older one.
struct Variables {
  std::string_view launcher;
  std::string_view shown;
  std::string_view rank;
  std::string_view size;
  std::string_view older_size;
  std::string_view local_rank;
  std::string_view local_size;
};

constexpr Variables kTorchrun{
    "torchrun", "torchrun's RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Variables kOpenMpi{
    "Open MPI", "OMPI_COMM_WORLD_*",          "OMPI_COMM_WORLD_RANK",      "OMPI_COMM_WORLD_SIZE",
    "",         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Variables kMpich{"MPICH", "PMI_*",           "PMI_RANK",       "PMI_SIZE",
                           "",      "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Variables kSlurm{"Slurm",         "SLURM_*", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
                           "SLURM_LOCALID", ""};
constexpr Variables kPlain{"RANK and WORLD_SIZE", "RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "",
                           "LOCAL_RANK",          "LOCAL_WORLD_SIZE"};

class Detection {
 public:
  Detection(const Environment& environment, const ProcessFacts& facts)
      : environment_(environment), facts_(facts) {}

  Result<World> run() const {
    const Variables* chosen = choose();
    World world;
    if (chosen != nullptr) {
      FERRULE_RETURN_IF_ERROR(read(*chosen, world));
      FERRULE_RETURN_IF_ERROR(check_plain_agrees(*chosen, world));
    }
    Result<std::optional<Place>> place = place_for(environment_, facts_, world);
    if (!place.ok()) return place.status();
    world.place = std::move(place.value());
    return world;
  }

 private:
  std::string_view get(std::string_view name) const { return name.empty() ? "" : lookup(environment_, name); }
  bool has(std::string_view name) const { return !get(name).empty(); }

  const Variables* choose() const {
    const bool plain = has("RANK") || has("WORLD_SIZE");
    if (plain && has("TORCHELASTIC_RUN_ID")) return &kTorchrun;
    if (has(kOpenMpi.rank) && has(kOpenMpi.size)) return &kOpenMpi;
    // Hydra (MPICH's mpiexec) may be started by srun: its processes then also have variables of its own step.
    const bool pmi = has(kMpich.rank) && has(kMpich.size);
    if (pmi && has(kMpich.local_size)) return &kMpich;
    // Launchers for one host are often started by srun, one a host: they set all four of these.
    if (plain && has("RANK") && has("WORLD_SIZE") && has("MASTER_ADDR") && has("MASTER_PORT")) return &kPlain;
    if (is_slurm_task()) return &kSlurm;
    if (pmi) return &kMpich;
    return plain ? &kPlain : nullptr;
  }

  // A login shell (salloc) has SLURM_NTASKS but no task; a batch script has SLURM_PROCID=0, but is not one of
  // the tasks; shells of interactive steps have step numbers from the end of the range.
  bool is_slurm_task() const {
    if (!has("SLURM_PROCID") || !(has(kSlurm.size) || has(kSlurm.older_size))) return false;
    const std::string_view step_text = has("SLURM_STEP_ID") ? get("SLURM_STEP_ID") : get("SLURM_STEPID");
    if (step_text.empty()) return get("ENVIRONMENT") != "BATCH";
    const Result<std::uint64_t> step = parse_count(step_text);
    return step.ok() && step.value() < 0xfffffff0u;
  }

  Result<std::int32_t> number(std::string_view name) const {
    const Result<std::uint64_t> value = parse_count(get(name));
    if (!value.ok() || value.value() > std::numeric_limits<std::int32_t>::max()) {
      return contradiction(fmt::format("{}='{}' is not a number of ranks", name, get(name).substr(0, 100)));
    }
    return static_cast<std::int32_t>(value.value());
  }

  std::string_view name_of_size(const Variables& names) const {
    return has(names.size) || names.older_size.empty() ? names.size : names.older_size;
  }

  Status read(const Variables& names, World& world) const {
    const std::string_view size_name = name_of_size(names);
    if (!has(names.rank) && get(size_name) == "1") return Status();  // WORLD_SIZE=1 alone says it all
    for (const auto& [set, missing] : {std::pair(names.rank, size_name), std::pair(size_name, names.rank)}) {
      if (has(missing)) continue;
      return contradiction(
          fmt::format("{}={} is set, but {} is not; a launcher sets both", set, get(set), missing));
    }
    world.launcher = names.launcher;
    world.variables = names.shown;
    FERRULE_RETURN_IF_ERROR(store(number(names.rank), world.rank));
    FERRULE_RETURN_IF_ERROR(store(number(size_name), world.size));
    if (has(names.local_rank)) FERRULE_RETURN_IF_ERROR(store(number(names.local_rank), world.local_rank));
    if (has(names.local_size)) FERRULE_RETURN_IF_ERROR(store(number(names.local_size), world.local_size));
    if (world.rank < world.size) return Status();
    return contradiction(fmt::format("{}={} is not below {}={}; ranks count from 0", names.rank, world.rank,
                                     size_name, world.size));
  }

  static Status store(const Result<std::int32_t>& from, std::int32_t& to) {
    if (from.ok()) to = from.value();
    return from.status();
  }

  // RANK and WORLD_SIZE next to a launcher's own variables must say the same.
  Status check_plain_agrees(const Variables& chosen, const World& world) const {
    if (&chosen == &kTorchrun || &chosen == &kPlain) return Status();
    for (const auto& [name, theirs, value] : {std::tuple(kPlain.rank, chosen.rank, world.rank),
                                              std::tuple(kPlain.size, name_of_size(chosen), world.size)}) {
      if (!has(name)) continue;
      const Result<std::int32_t> ours = number(name);
      if (!ours.ok()) return ours.status();
      if (ours.value() == value) continue;
      return contradiction(fmt::format("{} says {}, but {} says {} ({}); unset the one that is wrong", theirs,
                                       value, name, ours.value(), chosen.launcher));
    }
    return Status();
  }

  const Environment& environment_;
  const ProcessFacts& facts_;
};

}  // namespace

std::string World::describe() const {
  const std::string count = fmt::format("{} rank{}", size, size == 1 ? "" : "s");
  return launcher.empty() ? count + " (no launcher found)" : fmt::format("{} (from {})", count, variables);
}

Result<World> world_from(const Environment& environment, const ProcessFacts& facts) {
  return Detection(environment, facts).run();
}

Result<World> world_from_environment() {
  return world_from(process_environment(), ProcessFacts{::getuid(), ::getsid(0)});
}

}  // namespace ferrule::rendezvous
