// Errors are values. Status says what went wrong and, by its code, what to do next; Result<T> carries a value
// or a Status. Nothing in Ferrule's public interface throws or aborts because of its input.
//
// Thread safety: both are plain values. Allocation: only the text of an error allocates.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace ferrule {

/// What the caller can do about it. The numbers are those of ferruleResult_t and never change meaning.
enum class ErrorCode : int {
  ok = 0,
  invalid_argument = 1,  ///< Fix the call.
  unsupported = 2,       ///< Choose another codec, algorithm, dtype or operation.
  mismatch = 3,          ///< Ranks disagree; both values are in the text. The communicator is still usable.
  timeout = 4,           ///< A deadline passed; the text says who is missing. Rebuild the communicator.
  peer_lost = 5,         ///< Another rank is gone. Rebuild the communicator without it.
  aborted = 6,           ///< abort() was called. Rebuild the communicator.
  corrupt = 7,           ///< Bytes on the wire were not what was sent. Rebuild the communicator.
  system = 8,            ///< The operating system or a transport refused; the text has its reason.
  internal = 9,          ///< A bug in Ferrule. Please report it.
};

/// The code's stable name, e.g. "peer_lost".
constexpr std::string_view error_code_name(ErrorCode code) {
  constexpr std::string_view kNames[] = {"ok",      "invalid_argument", "unsupported", "mismatch",
                                         "timeout", "peer_lost",        "aborted",     "corrupt",
                                         "system",  "internal"};
  const auto index = static_cast<unsigned>(code);
  return index < std::size(kNames) ? kNames[index] : std::string_view("unknown");
}

/// Success, or a code with a text that says what was wrong, where, and what to do.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string text) : code_(code), text_(std::move(text)) {}

  bool ok() const { return code_ == ErrorCode::ok; }
  explicit operator bool() const { return ok(); }
  ErrorCode code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  ErrorCode code_ = ErrorCode::ok;
  std::string text_;
};

/// A value or the Status that explains its absence. Reading value() of an error is a programming error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}         // NOLINT: implicit on purpose
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {}  // NOLINT: implicit on purpose

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return *std::get_if<0>(&state_); }
  const T& value() const& { return *std::get_if<0>(&state_); }
  T&& value() && { return std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  /// The error; a success when there is a value.
  Status status() const { return ok() ? Status() : *std::get_if<1>(&state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace ferrule

/// Returns from the enclosing function if `expression` is an error Status.
#define FERRULE_RETURN_IF_ERROR(expression)                           \
  do {                                                                \
    if (auto ferrule_status_ = (expression); !ferrule_status_.ok()) { \
      return ferrule_status_;                                         \
    }                                                                 \
  } while (false)
