// What launchers leave in the environment: places, ports, host lists, Open MPI's contacts, interface
// patterns, and whole environments of NAME=value lines.
#include "fuzz/input.hpp"
#include "fuzz/require.hpp"
#include "rendezvous/host_list.hpp"
#include "rendezvous/interface.hpp"
#include "rendezvous/launcher.hpp"
#include "rendezvous/launcher_places.hpp"

namespace {

using namespace ferrule::rendezvous;
using ferrule::ErrorCode;
using ferrule::fuzz::Input;

void check_ports(const Place& place) {
  const auto ports = candidate_ports(place, std::nullopt);
  FERRULE_REQUIRE(!ports.empty() && (place.fixed_port ? ports.size() == 1 : true));
  for (const std::uint16_t port : ports) FERRULE_REQUIRE(port != 0);
}

void check_place(std::string_view text) {
  const auto place = parse_place(text);
  if (!place.ok()) return FERRULE_REQUIRE(place.status().code() == ErrorCode::invalid_argument);
  const auto again = parse_place(place->text());
  FERRULE_REQUIRE_OR(again.ok(), place->text());
  FERRULE_REQUIRE_OR(again->text() == place->text(), place->text());
  FERRULE_REQUIRE(again->hosts == place->hosts && again->port == place->port && again->path == place->path);
  if (place->kind == Place::Kind::tcp) check_ports(*place);
}

void check_port_range(std::string_view text) {
  const auto range = parse_port_range(text);
  if (!range.ok()) return FERRULE_REQUIRE(range.status().code() == ErrorCode::invalid_argument);
  FERRULE_REQUIRE(range->first > 0 && range->first <= range->last);
  for (const std::uint16_t port : candidate_ports(Place{}, *range)) {
    FERRULE_REQUIRE(port >= range->first && port <= range->last);
  }
}

void check_host_list(std::string_view text) {
  const auto hosts = expand_host_list(text);
  if (!hosts.ok()) return FERRULE_REQUIRE(hosts.status().code() == ErrorCode::invalid_argument);
  FERRULE_REQUIRE(!hosts->empty() && hosts->size() <= 65536);
  if (text.find_first_of("[]") == std::string_view::npos) {
    std::string joined;
    for (const std::string& host : *hosts) joined += (joined.empty() ? "" : ",") + host;
    FERRULE_REQUIRE_OR(joined == text, joined);
  }
}

void check_contact(std::string_view text) {
  for (const std::string& address : addresses_in_contact(text)) {
    FERRULE_REQUIRE(!address.empty() && text.find(address) != std::string_view::npos);
    FERRULE_REQUIRE(!address.starts_with("127."));
  }
}

void check_interface(Input& input) {
  const std::string_view name = input.line();
  (void)interface_is_wanted(name, input.rest());
  FERRULE_REQUIRE(interface_is_wanted("eth0", "=eth0") && !interface_is_wanted("eth01", "=eth0"));
}

void check_environment(Input& input) {
  ferrule::Environment environment;
  while (!input.empty()) {
    const std::string_view line = input.line();
    const std::size_t equals = std::min(line.find('='), line.size());
    environment.emplace(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
  }
  const auto world = world_from(environment, {1000, 77});
  if (!world.ok()) return FERRULE_REQUIRE(world.status().code() == ErrorCode::invalid_argument);
  FERRULE_REQUIRE(world->size >= 1 && world->rank >= 0 && world->rank < world->size);
  FERRULE_REQUIRE(world->size == 1 || world->place.has_value());
  (void)world->describe();
  if (world->place && world->place->kind == Place::Kind::tcp) {
    FERRULE_REQUIRE(!world->place->hosts.empty());
    check_ports(*world->place);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  Input input(data, bytes);
  switch (input.pick(6)) {
    case 0:
      check_place(input.rest());
      break;
    case 1:
      check_port_range(input.rest());
      break;
    case 2:
      check_host_list(input.rest());
      break;
    case 3:
      check_contact(input.rest());
      break;
    case 4:
      check_interface(input);
      break;
    default:
      check_environment(input);
  }
  return 0;
}
