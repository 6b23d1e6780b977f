// Owners of UCX's context and worker, made with the settings that Ferrule needs.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <string>

#include "ferrule/status.hpp"
#include "transport/registry.hpp"

namespace ferrule::transport::ucx {

/// The path between ranks that was asked for: decides UCX_TLS and the best size of a message.
enum class Path { automatic, shared_memory, tcp, custom };

/// FERRULE_UCX_TLS: "shm", "tcp", or any value that UCX_TLS takes. Empty or unset: UCX chooses.
struct PathChoice {
  Path path = Path::automatic;
  std::string tls;  ///< for UCX_TLS; empty: left alone

  static PathChoice from_environment();
};

/// Payload bytes of a message that is one fragment with its header. More than that is cut and put together
/// again by UCX, at half the speed.
constexpr std::size_t kSharedMemoryMessageBytes = 64512;
constexpr std::size_t kTcpMessageBytes = 130048;

struct ContextDeleter {
  void operator()(ucp_context* context) const { ucp_cleanup(context); }
};
struct WorkerDeleter {
  void operator()(ucp_worker* worker) const { ucp_worker_destroy(worker); }
};
using Context = std::unique_ptr<ucp_context, ContextDeleter>;
using Worker = std::unique_ptr<ucp_worker, WorkerDeleter>;

/// Settings, from weakest to strongest: UCX's defaults, Ferrule's, the user's own UCX_* variables.
Result<Context> make_context(const PathChoice& choice, const Membership& membership);
Result<Worker> make_worker(ucp_context* context);

/// The address that a peer needs to reach this worker, as opaque bytes.
Result<std::string> worker_address(ucp_worker* worker);

/// `system` with what was being done and UCX's own words.
Status ucx_error(std::string_view doing, ucs_status_t status);

}  // namespace ferrule::transport::ucx
