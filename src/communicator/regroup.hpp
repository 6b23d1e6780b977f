// Communicators made of communicators.
#pragma once

#include <memory>

#include "communicator/connect.hpp"

namespace ferrule::communicator {

/// A communicator of the ranks that gave the same colour, ordered by (key, rank in the parent). Null for a
/// negative colour. A collective of the parent: all its ranks call it, in the same place among its other
/// collectives. Afterwards neither knows of the other.
MadeCommunicator split(Communicator& parent, int color, int key);

/// A communicator of those that are left of a broken one, in their old order. All survivors call it. What is
/// pending on the broken one is ended; it must still be destroyed. Whatever fails may be tried again.
/// `reset_residuals`: this rank's residuals start at zero in the new one; else they are kept.
MadeCommunicator shrink(Communicator& broken, bool reset_residuals);

}  // namespace ferrule::communicator
