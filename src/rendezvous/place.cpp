#include "rendezvous/place.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_values.hpp"
#include "rendezvous/socket_address.hpp"

namespace ferrule::rendezvous {
namespace {

// Ports that no system hands out by itself (Linux's range starts at 32768), above the well-known ones.
constexpr PortRange kDefaultRange{24576, 32767};
constexpr std::size_t kCandidates = 16;

Status bad_place(std::string_view text, std::string_view why) {
  return Status(ErrorCode::invalid_argument,
                fmt::format("rendezvous '{}': {} (expected tcp://host:port or file:///path)",
                            text.substr(0, 300), why));
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  const Result<std::uint64_t> port = parse_count(text);
  if (!port.ok() || port.value() == 0 || port.value() > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(port.value());
}

// Splits "host:port", "[v6]:port", "host", "[v6]" and a bare v6 literal.
Result<Place> parse_tcp(std::string_view whole, std::string_view rest) {
  std::string_view host = rest;
  std::optional<std::string_view> port;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) return bad_place(whole, "no ] after [");
    host = rest.substr(1, end - 1);
    const std::string_view after = rest.substr(end + 1);
    if (!after.empty() && after.front() != ':') return bad_place(whole, "expected :port after ]");
    if (!after.empty()) port = after.substr(1);
  } else if (std::ranges::count(rest, ':') == 1) {
    const std::size_t colon = rest.find(':');
    host = rest.substr(0, colon);
    port = rest.substr(colon + 1);
  }
  const bool odd = std::ranges::any_of(
      host, [](char c) { return c <= ' ' || c > '~' || c == '/' || c == '[' || c == ']'; });
  if (host.empty() || odd) return bad_place(whole, "bad host");
  Place place;
  place.hosts = {std::string(host)};
  if (port) {
    place.port = parse_port(*port);
    place.fixed_port = true;
    if (!place.port) return bad_place(whole, fmt::format("'{}' is not a port (1 to 65535)", *port));
  }
  return place;
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a: the same on all hosts, whatever their library
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash ^ (hash >> 29);
}

}  // namespace

Result<PortRange> parse_port_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = parse_port(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_port(text.substr(dash + 1));
  if (first && last && *first <= *last) return PortRange{*first, *last};
  return Status(
      ErrorCode::invalid_argument,
      fmt::format("FERRULE_PORT_RANGE='{}' is not a range of ports, e.g. 20000-20015", text.substr(0, 100)));
}

std::string Place::text() const {
  if (kind == Kind::file) return "file://" + path;
  const std::string host = hosts.empty() ? "?" : hosts.front();
  if (port) return "tcp://" + host_and_port(host, *port);
  return "tcp://" + (host.find(':') == std::string::npos ? host : "[" + host + "]");
}

Result<Place> parse_place(std::string_view text) {
  if (text.starts_with("tcp://")) return parse_tcp(text, text.substr(6));
  if (!text.starts_with("file://")) return bad_place(text, "unknown kind");
  Place place;
  place.kind = Place::Kind::file;
  place.path = text.substr(7);
  if (!place.path.starts_with('/')) return bad_place(text, "the path must be absolute");
  return place;
}

std::vector<std::uint16_t> candidate_ports(const Place& place, std::optional<PortRange> range) {
  std::vector<std::uint16_t> ports;
  if (place.port) ports.push_back(*place.port);
  if (place.fixed_port) return ports;
  const PortRange within = range.value_or(kDefaultRange);
  const std::size_t count = static_cast<std::size_t>(within.last - within.first) + 1;
  const std::size_t start = hash_of(place.job) % count;
  // All of a range that was given (it may be partly occupied), but only a few of the default one.
  const std::size_t tries = range ? std::min<std::size_t>(count, 256) : kCandidates;
  for (std::size_t i = 0; i < tries; ++i) {
    ports.push_back(static_cast<std::uint16_t>(within.first + (start + i) % count));
  }
  return ports;
}

}  // namespace ferrule::rendezvous
