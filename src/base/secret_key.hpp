// A key that the ranks of a job share, and what is made of it: other keys, and tags that only its holders can
// make. BLAKE2b with a key, of libsodium; a build without libsodium has no such keys.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "ferrule/status.hpp"

namespace ferrule {

/// Thread safe. Its bytes are overwritten when it goes.
class SecretKey {
 public:
  static constexpr std::size_t kBytes = 32;
  static constexpr std::size_t kTagBytes = 16;

  /// What a tag is about. Each part is hashed with its length, so that no two lists give the same bytes.
  using Parts = std::initializer_list<std::string_view>;

  /// E.g. "libsodium 1.0.18"; empty in a build without.
  static std::string_view library();
  /// The key that stands for a secret of any length. `unsupported` in a build without libsodium.
  static Result<SecretKey> from_text(std::string_view secret);

  ~SecretKey();
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;

  /// Another key, from which this one cannot be found. `domain` keeps uses apart: a tag made for one purpose
  /// is worth nothing for another.
  SecretKey derive(std::string_view domain, Parts parts) const;
  /// kTagBytes bytes.
  std::string tag(std::string_view domain, Parts parts) const;
  /// Is it this tag? Takes the same time wherever they differ.
  bool accepts(std::string_view tag, std::string_view domain, Parts parts) const;

 private:
  SecretKey() = default;
  std::array<unsigned char, kBytes> bytes_{};
};

/// Bytes that nobody can guess, from the system. In every build.
Result<std::string> random_bytes(std::size_t count);

}  // namespace ferrule
