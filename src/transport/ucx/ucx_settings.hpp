// What Ferrule changes in UCX's configuration and why, and what it keeps UCX from doing to the host process.
#pragma once

#include <ucp/api/ucp.h>

#include <span>
#include <string>
#include <vector>

#include "ferrule/status.hpp"
#include "transport/registry.hpp"
#include "transport/ucx/ucx_resources.hpp"

namespace ferrule::transport::ucx {

/// One configuration key without the "UCX_" prefix, and the value that Ferrule wants unless the user set it.
struct Setting {
  std::string key;
  std::string value;
};

std::vector<Setting> wanted_settings(const PathChoice& choice, const Membership& membership);

/// Applies those whose UCX_<key> the user has not set.
Status apply_settings(ucp_config_t* config, std::span<const Setting> settings);

/// Refuses shared-memory segment sizes with which UCX corrupts messages without a word.
Status check_segment_sizes();

/// Takes back the handlers for SIGSEGV and others that libucs installs when it is loaded, and turns its log
/// lines into Ferrule's; neither when the user's UCX_* variables ask for them. Once a process.
void calm_ucx();

}  // namespace ferrule::transport::ucx
