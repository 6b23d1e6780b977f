// What a target demands of the code that it fuzzes. A broken demand ends the program, which is how a fuzzer
// learns of it and keeps the input.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace ferrule::fuzz {

[[noreturn]] inline void broken(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: not so: %s\n", file, line, what.c_str());
  std::abort();
}

}  // namespace ferrule::fuzz

// Both are expressions, so that `return FERRULE_REQUIRE(...)` can end a check.
#define FERRULE_REQUIRE(condition) \
  ((condition) ? static_cast<void>(0) : ::ferrule::fuzz::broken(__FILE__, __LINE__, #condition))
/// With a text that says more; it is made only when needed.
#define FERRULE_REQUIRE_OR(condition, text) \
  ((condition) ? static_cast<void>(0)       \
               : ::ferrule::fuzz::broken(__FILE__, __LINE__, std::string(#condition ": ") + (text)))
