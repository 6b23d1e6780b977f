// C API: the collectives of collectives.h, sends and receives.
#include <span>
#include <string>

#include "collectives/schedule.hpp"
#include "communicator/c_api.hpp"

using ferrule::ErrorCode;
using ferrule::Status;
using namespace ferrule::c_api;  // NOLINT: this file is the other half of that namespace
namespace communicator = ferrule::communicator;
using ferrule::collectives::Collective;

namespace {

// What the C functions have in common.
struct Arguments {
  ferruleDataType_t dtype = ferruleFloat32;
  const ferruleOptions_t* options = nullptr;
  ferruleComm_t comm = nullptr;
  ferruleStream_t stream = nullptr;
};

// `call` has what is particular to the collective. counts: null where all parts are alike.
ferruleResult_t start(communicator::Call call, const Arguments& arguments) {
  return guarded([&]() -> Status {
    if (arguments.comm == nullptr) return null_argument("comm");
    ferruleOptions_t given = FERRULE_OPTIONS_INIT;
    FERRULE_RETURN_IF_ERROR(read_options(arguments.options, given, call));
    FERRULE_RETURN_IF_ERROR(read_memory(given, arguments.stream, call));
    call.dtype = static_cast<ferrule::DType>(arguments.dtype);
    return start_call(call, given, arguments.comm);
  });
}

// The same with a count for each rank, which the caller says are there.
ferruleResult_t start_v(communicator::Call call, const size_t* counts, const Arguments& arguments) {
  if (arguments.comm == nullptr) return report(null_argument("comm"));
  if (counts == nullptr) return report(null_argument("counts"));
  call.counts = {counts, static_cast<size_t>(arguments.comm->communicator->size())};
  return start(call, arguments);
}

communicator::Call call_of(Collective collective, const void* send, void* recv, size_t count) {
  communicator::Call call;
  call.collective = collective;
  call.send = send;
  call.recv = recv;
  call.count = count;
  return call;
}

communicator::Call rooted(Collective collective, const void* send, void* recv, size_t count, int root) {
  communicator::Call call = call_of(collective, send, recv, count);
  call.root = root;
  return call;
}

ferruleResult_t transfer(communicator::TransferCall call, const Arguments& arguments) {
  return guarded([&]() -> Status {
    if (arguments.comm == nullptr) return null_argument("comm");
    ferruleOptions_t given = FERRULE_OPTIONS_INIT;
    communicator::Call unused;
    FERRULE_RETURN_IF_ERROR(read_options(arguments.options, given, unused));
    FERRULE_RETURN_IF_ERROR(read_memory(given, arguments.stream, unused));
    if (unused.on_device) {
      return Status(ErrorCode::unsupported,
                    "sends and receives between two ranks take host memory: pass a null stream");
    }
    call.dtype = static_cast<ferrule::DType>(arguments.dtype);
    call.timeout = unused.timeout;
    return start_transfer(call, given, arguments.comm);
  });
}

std::string names_of(Collective collective) {
  std::string names;
  for (const auto& each : ferrule::collectives::algorithms(collective)) {
    names += (names.empty() ? "" : ",") + std::string(each.name);
  }
  return names;
}

}  // namespace

extern "C" {

ferruleResult_t ferruleReduceScatter(const void* send, void* recv, size_t count, ferruleDataType_t dtype,
                                     ferruleRedOp_t op, const ferruleOptions_t* options, ferruleComm_t comm,
                                     ferruleStream_t stream) {
  communicator::Call call = call_of(Collective::reduce_scatter, send, recv, count);
  call.op = static_cast<ferrule::ReduceOp>(op);
  return start(call, {dtype, options, comm, stream});
}

ferruleResult_t ferruleReduceScatterV(const void* send, void* recv, const size_t* counts,
                                      ferruleDataType_t dtype, ferruleRedOp_t op,
                                      const ferruleOptions_t* options, ferruleComm_t comm,
                                      ferruleStream_t stream) {
  communicator::Call call = call_of(Collective::reduce_scatter, send, recv, 0);
  call.op = static_cast<ferrule::ReduceOp>(op);
  return start_v(call, counts, {dtype, options, comm, stream});
}

ferruleResult_t ferruleAllGather(const void* send, void* recv, size_t count, ferruleDataType_t dtype,
                                 const ferruleOptions_t* options, ferruleComm_t comm,
                                 ferruleStream_t stream) {
  return start(call_of(Collective::all_gather, send, recv, count), {dtype, options, comm, stream});
}

ferruleResult_t ferruleAllGatherV(const void* send, void* recv, const size_t* counts, ferruleDataType_t dtype,
                                  const ferruleOptions_t* options, ferruleComm_t comm,
                                  ferruleStream_t stream) {
  return start_v(call_of(Collective::all_gather, send, recv, 0), counts, {dtype, options, comm, stream});
}

ferruleResult_t ferruleBroadcast(const void* send, void* recv, size_t count, ferruleDataType_t dtype,
                                 int root, const ferruleOptions_t* options, ferruleComm_t comm,
                                 ferruleStream_t stream) {
  return start(rooted(Collective::broadcast, send, recv, count, root), {dtype, options, comm, stream});
}

ferruleResult_t ferruleReduce(const void* send, void* recv, size_t count, ferruleDataType_t dtype,
                              ferruleRedOp_t op, int root, const ferruleOptions_t* options,
                              ferruleComm_t comm, ferruleStream_t stream) {
  communicator::Call call = rooted(Collective::reduce, send, recv, count, root);
  call.op = static_cast<ferrule::ReduceOp>(op);
  return start(call, {dtype, options, comm, stream});
}

ferruleResult_t ferruleGather(const void* send, void* recv, size_t count, ferruleDataType_t dtype, int root,
                              const ferruleOptions_t* options, ferruleComm_t comm, ferruleStream_t stream) {
  return start(rooted(Collective::gather, send, recv, count, root), {dtype, options, comm, stream});
}

ferruleResult_t ferruleGatherV(const void* send, void* recv, const size_t* counts, ferruleDataType_t dtype,
                               int root, const ferruleOptions_t* options, ferruleComm_t comm,
                               ferruleStream_t stream) {
  return start_v(rooted(Collective::gather, send, recv, 0, root), counts, {dtype, options, comm, stream});
}

ferruleResult_t ferruleScatter(const void* send, void* recv, size_t count, ferruleDataType_t dtype, int root,
                               const ferruleOptions_t* options, ferruleComm_t comm, ferruleStream_t stream) {
  return start(rooted(Collective::scatter, send, recv, count, root), {dtype, options, comm, stream});
}

ferruleResult_t ferruleScatterV(const void* send, void* recv, const size_t* counts, ferruleDataType_t dtype,
                                int root, const ferruleOptions_t* options, ferruleComm_t comm,
                                ferruleStream_t stream) {
  return start_v(rooted(Collective::scatter, send, recv, 0, root), counts, {dtype, options, comm, stream});
}

ferruleResult_t ferruleAllToAll(const void* send, void* recv, size_t count, ferruleDataType_t dtype,
                                const ferruleOptions_t* options, ferruleComm_t comm, ferruleStream_t stream) {
  return start(call_of(Collective::all_to_all, send, recv, count), {dtype, options, comm, stream});
}

ferruleResult_t ferruleAllToAllV(const void* send, const size_t* send_counts, void* recv,
                                 const size_t* recv_counts, ferruleDataType_t dtype,
                                 const ferruleOptions_t* options, ferruleComm_t comm,
                                 ferruleStream_t stream) {
  if (comm == nullptr) return report(null_argument("comm"));
  if (recv_counts == nullptr) return report(null_argument("recv_counts"));
  communicator::Call call = call_of(Collective::all_to_all, send, recv, 0);
  call.recv_counts = {recv_counts, static_cast<size_t>(comm->communicator->size())};
  return start_v(call, send_counts, {dtype, options, comm, stream});
}

ferruleResult_t ferruleBarrier(const ferruleOptions_t* options, ferruleComm_t comm, ferruleStream_t stream) {
  return start(call_of(Collective::barrier, nullptr, nullptr, 0), {ferruleUint8, options, comm, stream});
}

ferruleResult_t ferruleSend(const void* data, size_t count, ferruleDataType_t dtype, int peer, uint32_t tag,
                            const ferruleOptions_t* options, ferruleComm_t comm, ferruleStream_t stream) {
  communicator::TransferCall call;
  call.sends = true;
  call.data = const_cast<void*>(data);  // a send reads only
  call.count = count;
  call.peer = peer;
  call.tag = tag;
  return transfer(call, {dtype, options, comm, stream});
}

ferruleResult_t ferruleRecv(void* data, size_t count, ferruleDataType_t dtype, int peer, uint32_t tag,
                            const ferruleOptions_t* options, ferruleComm_t comm, ferruleStream_t stream) {
  communicator::TransferCall call;
  call.data = data;
  call.count = count;
  call.peer = peer;
  call.tag = tag;
  return transfer(call, {dtype, options, comm, stream});
}

ferruleResult_t ferruleWorkSource(ferruleWork_t work, int* rank) {
  return guarded([&]() -> Status {
    if (work == nullptr || rank == nullptr) return null_argument("work or rank");
    if (work->work->transfer == nullptr || work->work->transfer->sends) {
      return Status(ErrorCode::invalid_argument, "only a receive has a source");
    }
    if (!work->work->done.load(std::memory_order_acquire)) {
      return Status(ErrorCode::invalid_argument, "the receive is not done yet: wait for it first");
    }
    *rank = work->work->transfer->source;
    return {};
  });
}

const char* ferruleCollectiveAlgorithmNames(const char* collective) {
  static const auto kNames = [] {
    std::vector<std::string> names;
    for (int i = 0; i < ferrule::collectives::kCollectiveCount; ++i) {
      names.push_back(names_of(static_cast<Collective>(i)));
    }
    return names;
  }();
  for (std::size_t i = 0; collective != nullptr && i < kNames.size(); ++i) {
    if (ferrule::collectives::name(static_cast<Collective>(i)) == collective) return kNames[i].c_str();
  }
  return nullptr;
}

}  // extern "C"
