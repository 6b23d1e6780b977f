// The job's secret, from FERRULE_JOB_SECRET or FERRULE_JOB_SECRET_FILE. docs/security.md has the rules.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret_key.hpp"
#include "ferrule/status.hpp"

namespace ferrule::rendezvous {

/// Who may meet here: those who name the same job and, where it has a secret, know that.
struct Job {
  std::string name;
  std::optional<SecretKey> secret;

  Job() = default;
  Job(std::string_view job, std::optional<SecretKey> key = {})
      : name(job), secret(std::move(key)) {}  // NOLINT
  Job(const char* job) : name(job) {}         // NOLINT
};

inline constexpr std::size_t kMinSecretBytes = 16;  ///< fewer could be guessed from what is heard on the wire
inline constexpr std::size_t kMaxSecretBytes = 4096;

/// None where neither is set. `invalid_argument` for a file that others may read, is too short or cannot be
/// read, and for both at once; `unsupported` in a build without libsodium.
Result<std::optional<SecretKey>> job_secret();
/// The same from these two values.
Result<std::optional<SecretKey>> job_secret(const std::string& text, const std::string& path);

/// What a rank is told whose secret differs from another's, whoever finds out.
inline constexpr std::string_view kSecretAdvice =
    "set FERRULE_JOB_SECRET or FERRULE_JOB_SECRET_FILE alike on all ranks";

}  // namespace ferrule::rendezvous
