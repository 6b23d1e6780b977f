// The arguments of a collective, checked before anything is queued.
#pragma once

#include <cstdint>

#include "ferrule/status.hpp"
#include "plan/layout.hpp"

namespace ferrule::communicator {

struct Call;

/// What the call owes, and the ranks' parts. The error names the argument, its value and what is right.
Status check_call(const Call& call, std::int32_t rank, std::int32_t world);
plan::Parts parts_of(const Call& call);

}  // namespace ferrule::communicator
