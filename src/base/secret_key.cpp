#include "base/secret_key.hpp"

#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#ifdef FERRULE_HAVE_SODIUM
#include <sodium.h>
#endif

namespace ferrule {

SecretKey::~SecretKey() { ::explicit_bzero(bytes_.data(), bytes_.size()); }

Result<std::string> random_bytes(std::size_t count) {
  constexpr std::size_t kMostAtOnce = 256;  // getentropy's limit
  std::string bytes(count, '\0');
  for (std::size_t done = 0; done < count; done += kMostAtOnce) {
    if (::getentropy(bytes.data() + done, std::min(kMostAtOnce, count - done)) == 0) continue;
    return Status(ErrorCode::system,
                  fmt::format("the system gives no random numbers: {}", ::strerror(errno)));
  }
  return bytes;
}

#ifdef FERRULE_HAVE_SODIUM
namespace {

class KeyedHash {
 public:
  KeyedHash(const unsigned char* key, std::size_t key_bytes, std::size_t out_bytes) : out_bytes_(out_bytes) {
    crypto_generichash_init(&state_, key, key_bytes, out_bytes);
  }
  ~KeyedHash() { sodium_memzero(&state_, sizeof(state_)); }
  KeyedHash(const KeyedHash&) = delete;
  KeyedHash& operator=(const KeyedHash&) = delete;

  void add(std::string_view part) {
    std::array<unsigned char, 8> length{};
    for (std::size_t i = 0; i < length.size(); ++i) {
      length[i] = static_cast<unsigned char>(std::uint64_t{part.size()} >> (8 * i));
    }
    crypto_generichash_update(&state_, length.data(), length.size());
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(part.data()), part.size());
  }
  void finish(unsigned char* out) { crypto_generichash_final(&state_, out, out_bytes_); }

 private:
  crypto_generichash_state state_;
  std::size_t out_bytes_;
};

void hash(const unsigned char* key, std::string_view domain, SecretKey::Parts parts, unsigned char* out,
          std::size_t out_bytes) {
  KeyedHash keyed(key, SecretKey::kBytes, out_bytes);
  keyed.add(domain);
  for (const std::string_view part : parts) keyed.add(part);
  keyed.finish(out);
}

}  // namespace

static_assert(SecretKey::kTagBytes >= crypto_generichash_BYTES_MIN);
static_assert(SecretKey::kBytes == crypto_generichash_KEYBYTES);

std::string_view SecretKey::library() {
  static const std::string name = std::string("libsodium ") + sodium_version_string();
  return name;
}

Result<SecretKey> SecretKey::from_text(std::string_view secret) {
  static const bool ready = sodium_init() >= 0;
  if (!ready) return Status(ErrorCode::system, "libsodium could not be started");
  SecretKey key;
  KeyedHash unkeyed(nullptr, 0, kBytes);
  unkeyed.add("ferrule job secret 1");
  unkeyed.add(secret);
  unkeyed.finish(key.bytes_.data());
  return key;
}

SecretKey SecretKey::derive(std::string_view domain, Parts parts) const {
  SecretKey key;
  hash(bytes_.data(), domain, parts, key.bytes_.data(), kBytes);
  return key;
}

std::string SecretKey::tag(std::string_view domain, Parts parts) const {
  std::string out(kTagBytes, '\0');
  hash(bytes_.data(), domain, parts, reinterpret_cast<unsigned char*>(out.data()), kTagBytes);
  return out;
}

bool SecretKey::accepts(std::string_view given, std::string_view domain, Parts parts) const {
  if (given.size() != kTagBytes) return false;
  return sodium_memcmp(given.data(), tag(domain, parts).data(), kTagBytes) == 0;
}

#else  // Nobody can have a key: from_text() is the only way to one.

std::string_view SecretKey::library() { return {}; }

Result<SecretKey> SecretKey::from_text(std::string_view) {
  return Status(ErrorCode::unsupported,
                "this build of Ferrule was made without libsodium and cannot authenticate: install "
                "libsodium-dev and build again, or unset it and trust the network");
}

SecretKey SecretKey::derive(std::string_view, Parts) const { return *this; }
std::string SecretKey::tag(std::string_view, Parts) const { return {}; }
bool SecretKey::accepts(std::string_view, std::string_view, Parts) const { return false; }

#endif

}  // namespace ferrule
