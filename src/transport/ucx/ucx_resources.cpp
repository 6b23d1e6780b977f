#include "transport/ucx/ucx_resources.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "base/log.hpp"
#include "transport/ucx/ucx_settings.hpp"

namespace ferrule::transport::ucx {
namespace {

struct ConfigDeleter {
  void operator()(ucp_config_t* config) const { ucp_config_release(config); }
};
using Config = std::unique_ptr<ucp_config_t, ConfigDeleter>;

}  // namespace

PathChoice PathChoice::from_environment() {
  const char* text = std::getenv("FERRULE_UCX_TLS");
  const std::string_view value = text != nullptr ? text : "";
  if (value.empty()) return {};
  if (value == "shm") return {Path::shared_memory, "posix,sysv,cma,self"};
  if (value == "tcp") return {Path::tcp, "tcp"};
  return {Path::custom, std::string(value)};
}

Status ucx_error(std::string_view doing, ucs_status_t status) {
  return {ErrorCode::system, fmt::format("UCX: {} failed: {}", doing, ucs_status_string(status))};
}

Result<Context> make_context(const PathChoice& choice, const Membership& membership) {
  calm_ucx();
  FERRULE_RETURN_IF_ERROR(check_segment_sizes());

  ucp_config_t* raw_config = nullptr;
  if (const auto status = ucp_config_read(nullptr, nullptr, &raw_config); status != UCS_OK) {
    return ucx_error("reading the UCX_* variables", status);
  }
  const Config config(raw_config);
  FERRULE_RETURN_IF_ERROR(apply_settings(config.get(), wanted_settings(choice, membership)));

  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = membership.peers.size();
  params.name = "ferrule";
  ucp_context_h context = nullptr;
  if (const auto status = ucp_init(&params, config.get(), &context); status != UCS_OK) {
    return ucx_error(fmt::format("creating a context (transports: {})",
                                 choice.tls.empty() ? "all" : std::string_view(choice.tls)),
                     status);
  }
  return Context(context);
}

Result<Worker> make_worker(ucp_context* context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // one owner at a time, not always the same thread
  ucp_worker_h worker = nullptr;
  if (const auto status = ucp_worker_create(context, &params, &worker); status != UCS_OK) {
    return ucx_error("creating a worker (is /dev/shm full?)", status);
  }
  return Worker(worker);
}

Result<std::string> worker_address(ucp_worker* worker) {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  if (const auto status = ucp_worker_get_address(worker, &address, &bytes); status != UCS_OK) {
    return ucx_error("asking for the worker's address", status);
  }
  std::string copy(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker, address);
  return copy;
}

}  // namespace ferrule::transport::ucx
