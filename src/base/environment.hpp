// The process environment as a value, so that what reads it can be tested with tables.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace ferrule {

using Environment = std::map<std::string, std::string, std::less<>>;

/// A copy of this process's environment.
Environment process_environment();

/// The value, or "" where it is not set. An empty value and an unset one mean the same to Ferrule.
inline std::string_view lookup(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace ferrule
