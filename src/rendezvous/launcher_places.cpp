#include "rendezvous/launcher_places.hpp"

#include <fmt/format.h>

#include "base/text_values.hpp"
#include "rendezvous/host_list.hpp"

namespace ferrule::rendezvous {
namespace {

using MaybePlace = std::optional<Place>;

Place loopback_place(std::string job) {
  Place place;
  place.hosts = {"127.0.0.1"};
  place.job = std::move(job);
  return place;
}

Status no_place(const World& world) {
  return Status(ErrorCode::invalid_argument,
                fmt::format("{}, but nothing says where they meet: set MASTER_ADDR and MASTER_PORT, or "
                            "FERRULE_RENDEZVOUS=tcp://<host of rank 0>:<port>",
                            world.describe()));
}

std::string_view first_of(const Environment& environment, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const std::string_view value = lookup(environment, name); !value.empty()) return value;
  }
  return {};
}

// Names this job, so that jobs side by side do not find each other's servers.
std::string job_name(const Environment& environment, const ProcessFacts& facts, const World& world) {
  const auto get = [&](std::string_view name) { return lookup(environment, name); };
  if (world.launcher == "torchrun") {
    return fmt::format("torchrun {} {} {}", get("TORCHELASTIC_RUN_ID"), get("TORCHELASTIC_RESTART_COUNT"),
                       get("MASTER_PORT"));
  }
  if (world.launcher == "Open MPI") {
    return fmt::format(
        "ompi {} {}", facts.user,
        first_of(environment, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"}));
  }
  if (world.launcher == "Slurm") {
    return fmt::format("slurm {} {}", first_of(environment, {"SLURM_JOB_ID", "SLURM_JOBID"}),
                       first_of(environment, {"SLURM_STEP_ID", "SLURM_STEPID"}));
  }
  if (world.launcher == "MPICH") return fmt::format("pmi {} {} {}", facts.user, facts.session, world.size);
  return fmt::format("plain {}", get("MASTER_PORT"));
}

Result<MaybePlace> master_place(const Environment& environment, const World& world, std::string job) {
  Place place;
  std::string_view host = lookup(environment, "MASTER_ADDR");
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  place.hosts = {std::string(host)};
  place.job = std::move(job);
  const std::string_view port_text = lookup(environment, "MASTER_PORT");
  if (port_text.empty()) return MaybePlace(place);
  const Result<std::uint64_t> port = parse_count(port_text);
  if (!port.ok() || port.value() == 0 || port.value() > 65535) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("MASTER_PORT='{}' is not a port (1 to 65535)", port_text.substr(0, 100)));
  }
  // torchrun's own store listens on MASTER_PORT for as long as the job runs.
  if (world.launcher != "torchrun") place.port = static_cast<std::uint16_t>(port.value());
  return MaybePlace(place);
}

Result<MaybePlace> open_mpi_place(const Environment& environment, const World& world, std::string job) {
  if (world.is_single_host()) return MaybePlace(loopback_place(std::move(job)));
  Place place;
  place.hosts = addresses_in_contact(first_of(
      environment, {"OMPI_MCA_orte_hnp_uri", "PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI"}));
  if (place.hosts.empty()) return no_place(world);
  place.job = std::move(job);
  place.server = Server::address_owner;  // mpirun's host need not be that of rank 0
  return MaybePlace(place);
}

Result<MaybePlace> slurm_place(const Environment& environment, std::string job) {
  const std::string_view list =
      first_of(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  const std::string_view nodes =
      first_of(environment, {"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
  if (nodes == "1" || list.empty()) return MaybePlace(loopback_place(std::move(job)));
  const Result<std::vector<std::string>> hosts = expand_host_list(list);
  if (!hosts.ok()) return hosts.status();
  if (hosts->size() == 1) return MaybePlace(loopback_place(std::move(job)));
  Place place;
  place.hosts = {hosts->front()};
  place.job = std::move(job);
  return MaybePlace(place);
}

bool is_number_address(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdefABCDEF.:%") == std::string_view::npos;
}

// The addresses of one "tcp://a,b:port" or "tcp6://[c,d]:port".
void append_addresses(std::string_view part, std::vector<std::string>& out) {
  const std::size_t start = part.find("://");
  const std::size_t port = part.rfind(':');
  if (!part.starts_with("tcp") || start == std::string_view::npos || port <= start + 2) return;
  std::string_view list = part.substr(start + 3, port - start - 3);
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view address = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (address.starts_with('[')) address.remove_prefix(1);
    while (address.ends_with(']')) address.remove_suffix(1);
    if (is_number_address(address) && !address.starts_with("127.") && address != "::1")
      out.emplace_back(address);
  }
}

}  // namespace

std::vector<std::string> addresses_in_contact(std::string_view contact) {
  std::vector<std::string> addresses;
  while (!contact.empty()) {
    const std::size_t end = std::min(contact.find(';'), contact.size());
    append_addresses(contact.substr(0, end), addresses);
    contact.remove_prefix(std::min(end + 1, contact.size()));
  }
  return addresses;
}

Result<MaybePlace> place_for(const Environment& environment, const ProcessFacts& facts, const World& world) {
  std::string job = job_name(environment, facts, world);
  if (const std::string_view given = lookup(environment, "FERRULE_RENDEZVOUS"); !given.empty()) {
    Result<Place> place = parse_place(given);
    if (!place.ok()) return Status(place.status().code(), "FERRULE_RENDEZVOUS: " + place.status().text());
    // With a port of its own the job needs no name, and hosts may differ in what they would call it.
    if (!place->fixed_port) place->job = std::move(job);
    return MaybePlace(std::move(place.value()));
  }
  if (world.size == 1) return MaybePlace();
  if (!lookup(environment, "MASTER_ADDR").empty()) return master_place(environment, world, std::move(job));
  if (world.launcher == "Open MPI") return open_mpi_place(environment, world, std::move(job));
  if (world.launcher == "Slurm") return slurm_place(environment, std::move(job));
  const bool local = world.local_size < 0 || world.is_single_host();
  if (world.launcher == "MPICH" && local) return MaybePlace(loopback_place(std::move(job)));
  return no_place(world);
}

}  // namespace ferrule::rendezvous
