// C API: communicators.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "communicator/c_api.hpp"
#include "communicator/c_store.hpp"
#include "communicator/regroup.hpp"

namespace ferrule::c_api {
namespace {

Result<communicator::Config> read_config(const ferruleConfig_t* given) {
  ferruleConfig_t config = FERRULE_CONFIG_INIT;
  FERRULE_RETURN_IF_ERROR(read_struct(given, config, "config"));
  if (config.timeout_ns < 0) return Status(ErrorCode::invalid_argument, "config.timeout_ns is negative");
  return communicator::Config{text_or_empty(config.transport), text_or_empty(config.codec),
                              text_or_empty(config.algorithm), text_or_empty(config.link),
                              text_or_empty(config.fault),     std::chrono::nanoseconds(config.timeout_ns)};
}

Status hand_over(communicator::MadeCommunicator made, ferruleComm_t* comm) {
  FERRULE_RETURN_IF_ERROR(made.status());
  *comm = new ferruleComm{std::move(made).value()};
  return {};
}

Status check_new_comm(ferruleComm_t* comm) {
  if (comm == nullptr) return null_argument("comm");
  *comm = nullptr;
  return {};
}

}  // namespace
}  // namespace ferrule::c_api

using ferrule::ErrorCode;
using ferrule::Status;
using namespace ferrule::c_api;  // NOLINT: this file is the other half of that namespace
namespace communicator = ferrule::communicator;

extern "C" {

ferruleResult_t ferruleCommInitRank(ferruleComm_t* comm, int nranks, const char* rendezvous, int rank,
                                    const ferruleConfig_t* config) {
  return guarded([&]() -> Status {
    FERRULE_RETURN_IF_ERROR(check_new_comm(comm));
    if (rendezvous == nullptr) return null_argument("rendezvous");
    auto read = read_config(config);
    FERRULE_RETURN_IF_ERROR(read.status());
    return hand_over(communicator::connect_at(rendezvous, rank, nranks, *read), comm);
  });
}

ferruleResult_t ferruleCommInitFromEnv(ferruleComm_t* comm, const ferruleConfig_t* config) {
  return guarded([&]() -> Status {
    FERRULE_RETURN_IF_ERROR(check_new_comm(comm));
    auto read = read_config(config);
    FERRULE_RETURN_IF_ERROR(read.status());
    return hand_over(communicator::connect_from_environment(*read), comm);
  });
}

ferruleResult_t ferruleCommInitStore(ferruleComm_t* comm, int nranks, int rank, const char* group,
                                     const ferruleStore_t* store, const ferruleConfig_t* config) {
  return guarded([&]() -> Status {
    FERRULE_RETURN_IF_ERROR(check_new_comm(comm));
    if (group == nullptr) return null_argument("group");
    if (store == nullptr || store->set == nullptr || store->get == nullptr) {
      return null_argument("store, or its set or get,");
    }
    auto read = read_config(config);
    FERRULE_RETURN_IF_ERROR(read.status());
    return hand_over(
        communicator::connect_through(communicator::wrap_store(*store), {group, rank, nranks}, *read), comm);
  });
}

ferruleResult_t ferruleCommInitLocal(ferruleComm_t* comms, int nranks, const ferruleConfig_t* config) {
  return guarded([&]() -> Status {
    if (nranks < 1) return Status(ErrorCode::invalid_argument, fmt::format("{} ranks: at least 1", nranks));
    if (comms == nullptr) return null_argument("comms");
    std::fill_n(comms, nranks, nullptr);
    auto read = read_config(config);
    FERRULE_RETURN_IF_ERROR(read.status());
    auto made = communicator::connect_local(nranks, *read);
    FERRULE_RETURN_IF_ERROR(made.status());
    for (std::size_t i = 0; i < made->size(); ++i) comms[i] = new ferruleComm{std::move((*made)[i])};
    return {};
  });
}

ferruleResult_t ferruleCommSplit(ferruleComm_t parent, int color, int key, ferruleComm_t* child) {
  return guarded([&]() -> Status {
    FERRULE_RETURN_IF_ERROR(check_new_comm(child));
    if (parent == nullptr) return null_argument("parent");
    auto made = communicator::split(*parent->communicator, color, key);
    if (made.ok() && *made == nullptr) return {};
    return hand_over(std::move(made), child);
  });
}

ferruleResult_t ferruleCommShrink(ferruleComm_t broken, ferruleComm_t* smaller,
                                  ferruleResidualPolicy_t residuals) {
  return guarded([&]() -> Status {
    FERRULE_RETURN_IF_ERROR(check_new_comm(smaller));
    if (broken == nullptr) return null_argument("broken");
    if (residuals != ferruleKeepResiduals && residuals != ferruleResetResiduals) {
      return Status(ErrorCode::invalid_argument,
                    fmt::format("{} is no residual policy", static_cast<int>(residuals)));
    }
    const bool reset = residuals == ferruleResetResiduals;
    return hand_over(communicator::shrink(*broken->communicator, reset), smaller);
  });
}

ferruleResult_t ferruleCommRank(ferruleComm_t comm, int* rank) {
  return guarded([&]() -> Status {
    if (comm == nullptr || rank == nullptr) return null_argument("comm or rank");
    *rank = comm->communicator->rank();
    return {};
  });
}

ferruleResult_t ferruleCommSize(ferruleComm_t comm, int* nranks) {
  return guarded([&]() -> Status {
    if (comm == nullptr || nranks == nullptr) return null_argument("comm or nranks");
    *nranks = comm->communicator->size();
    return {};
  });
}

ferruleResult_t ferruleCommTransport(ferruleComm_t comm, const char** name) {
  return guarded([&]() -> Status {
    if (comm == nullptr || name == nullptr) return null_argument("comm or name");
    *name = comm->communicator->transport_name().c_str();
    return {};
  });
}

ferruleResult_t ferruleCommDestroy(ferruleComm_t comm) {
  return guarded([&]() -> Status {
    if (comm != nullptr) comm->communicator->close();
    delete comm;
    return {};
  });
}

ferruleResult_t ferruleCommAbort(ferruleComm_t comm) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("comm");
    comm->communicator->abort();
    return {};
  });
}

ferruleResult_t ferruleCommStats(ferruleComm_t comm, ferruleStats_t* stats) {
  return guarded([&]() -> Status {
    if (comm == nullptr || stats == nullptr) return null_argument("comm or stats");
    const std::size_t given = stats->struct_bytes;
    if (given < sizeof(std::size_t)) {
      return Status(ErrorCode::invalid_argument,
                    "stats.struct_bytes is not set: set it to sizeof(ferruleStats_t)");
    }
    const communicator::Stats now = comm->communicator->stats();
    ferruleStats_t full{};
    full.struct_bytes = given;
    full.collectives = now.collectives;
    full.bytes_sent = now.counters.bytes_sent;
    full.bytes_received = now.counters.bytes_received;
    full.messages_sent = now.counters.messages_sent;
    full.messages_received = now.counters.messages_received;
    full.encode_ns = now.times.encode_ns;
    full.decode_ns = now.times.decode_ns;
    full.wait_ns = now.times.wait_ns;
    full.scratch_bytes = now.scratch_bytes;
    std::copy_n(reinterpret_cast<const unsigned char*>(&full), std::min(given, sizeof full),
                reinterpret_cast<unsigned char*>(stats));
    return {};
  });
}

}  // extern "C"
