// A fuzzer's bytes, read as the numbers and texts that a target needs. When they run out everything is zero,
// so that every input is a complete one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace ferrule::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t bytes) : left_(data, bytes) {}

  /// The next bytes as a number, little endian.
  template <class T>
  requires std::is_arithmetic_v<T> T take() {
    T value{};
    const std::size_t some = std::min(sizeof(T), left_.size());
    if (some != 0) std::memcpy(&value, left_.data(), some);
    left_ = left_.subspan(some);
    return value;
  }
  bool flag() { return (take<std::uint8_t>() & 1U) != 0; }
  /// 0 ... below - 1, from one byte if that suffices. `below` > 0.
  std::uint32_t pick(std::uint32_t below) {
    const std::uint32_t raw = below <= 256 ? take<std::uint8_t>() : take<std::uint32_t>();
    return raw % below;
  }
  template <class T, std::size_t N>
  T choose(const T (&from)[N]) {
    return from[pick(static_cast<std::uint32_t>(N))];
  }
  /// At most that many bytes.
  std::string_view text(std::size_t at_most) {
    const std::size_t some = std::min(at_most, left_.size());
    const std::string_view taken(reinterpret_cast<const char*>(left_.data()), some);
    left_ = left_.subspan(some);
    return taken;
  }
  /// Up to the next line feed, which is taken too.
  std::string_view line() {
    const std::string_view all(reinterpret_cast<const char*>(left_.data()), left_.size());
    const std::size_t end = all.find('\n');
    const std::string_view taken = text(std::min(end, all.size()));
    if (!left_.empty()) left_ = left_.subspan(1);
    return taken;
  }
  std::string_view rest() { return text(left_.size()); }
  bool empty() const { return left_.empty(); }
  std::size_t left() const { return left_.size(); }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace ferrule::fuzz
