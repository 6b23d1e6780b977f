#include "transport/ucx/peer_address.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>

namespace ferrule::transport::ucx {
namespace {

/// Fixed part, little endian like everything Ferrule sends (and like every machine that it runs on).
struct Fixed {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t ucx_major;
  std::uint32_t ucx_minor;
  std::int64_t pid;
  std::uint64_t start_ticks;
  std::uint64_t pid_namespace;
  std::int32_t death_sign;
  std::uint32_t vigil_port;
  std::uint64_t worker_bytes;
};
static_assert(sizeof(Fixed) == 56);

constexpr std::uint32_t kMagic = 0x58435546;  // "FUCX"
constexpr std::uint32_t kVersion = 2;

}  // namespace

std::string PeerAddress::encode() const {
  const Fixed fixed{.magic = kMagic,
                    .version = kVersion,
                    .ucx_major = ucx_major,
                    .ucx_minor = ucx_minor,
                    .pid = process.pid,
                    .start_ticks = process.start_ticks,
                    .pid_namespace = process.pid_namespace,
                    .death_sign = death_sign,
                    .vigil_port = vigil_port,
                    .worker_bytes = worker.size()};
  std::string bytes(sizeof(Fixed), '\0');
  std::memcpy(bytes.data(), &fixed, sizeof(Fixed));
  return bytes + worker;
}

Result<PeerAddress> PeerAddress::decode(std::string_view bytes) {
  const auto bad = [](std::string why) {
    return Status(ErrorCode::corrupt, fmt::format("UCX address of a peer: {}", why));
  };
  if (bytes.size() < sizeof(Fixed)) {
    return bad(fmt::format("{} bytes, at least {} expected", bytes.size(), sizeof(Fixed)));
  }
  Fixed fixed{};
  std::memcpy(&fixed, bytes.data(), sizeof(Fixed));
  if (fixed.magic != kMagic || fixed.version != kVersion) {
    return bad(
        fmt::format("magic {:#x} version {}, {:#x} version {} expected; do all ranks run the same "
                    "version of Ferrule?",
                    fixed.magic, fixed.version, kMagic, kVersion));
  }
  if (fixed.vigil_port > 0xffff) return bad(fmt::format("{} is no port", fixed.vigil_port));
  const auto worker = bytes.substr(sizeof(Fixed));
  if (worker.empty() || worker.size() != fixed.worker_bytes) {
    return bad(
        fmt::format("{} bytes of worker address, its header says {}", worker.size(), fixed.worker_bytes));
  }
  return PeerAddress{fixed.ucx_major,
                     fixed.ucx_minor,
                     {fixed.pid, fixed.start_ticks, fixed.pid_namespace},
                     fixed.death_sign,
                     static_cast<std::uint16_t>(fixed.vigil_port),
                     std::string(worker)};
}

}  // namespace ferrule::transport::ucx
