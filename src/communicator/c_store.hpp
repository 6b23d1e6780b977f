// A store made of the two C functions of ferruleStore_t.
#pragma once

#include <memory>

#include "ferrule/ferrule.h"
#include "rendezvous/store.hpp"

namespace ferrule::communicator {

/// The functions and their context must outlive the result.
std::shared_ptr<rendezvous::Store> wrap_store(const ferruleStore_t& store);

}  // namespace ferrule::communicator
