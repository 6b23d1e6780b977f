// Errors of the library, as the exceptions that Python sees.
#pragma once

#include <exception>
#include <string>

#include "ferrule/ferrule.hpp"

namespace ferrule::python {

/// Becomes ferrule.FerruleError with the code's name.
class Failure : public std::exception {
 public:
  explicit Failure(Status status) : status_(std::move(status)) {}
  const char* what() const noexcept override { return status_.text().c_str(); }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

[[noreturn]] inline void fail(ErrorCode code, std::string text) {
  throw Failure(Status(code, std::move(text)));
}

inline void check(const Status& status) {
  if (!status.ok()) throw Failure(status);
}

inline void check(ferruleResult_t result) { check(detail::to_status(result)); }

template <class T>
T take(Result<T> result) {
  check(result.status());
  return std::move(result).value();
}

/// Makes nanobind turn Failure into ferrule.FerruleError.
void register_errors();

}  // namespace ferrule::python
