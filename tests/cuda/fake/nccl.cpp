#include "nccl.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "control.hpp"

namespace {

using ferrule::transport::nccl::Api;
using ferrule::transport::nccl::Code;
using ferrule::transport::nccl::Comm;
using ferrule::transport::nccl::Config;
using ferrule::transport::nccl::Library;
using ferrule::transport::nccl::UniqueId;

/// One message, from the time that its group runs.
struct Transfer {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
  bool collective = false;
  bool taken = false;
  bool done = false;
};

/// What ranks share.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
  int size = 0;
  std::map<int, Comm> members;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Transfer>>>
      sent;  ///< by (from, to), not yet taken
};

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank = 0;
  int device = 0;
  bool blocking = true;
  std::atomic<int> error{0};  ///< Code
  std::atomic<bool> aborted{false};
  std::atomic<bool> destroyed{false};
  std::atomic<bool> running{false};
};

namespace {

struct Message {
  bool sends = false;
  bool collective = false;
  int peer = -1;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
};

struct State {
  std::mutex mutex;
  std::map<std::uint64_t, std::shared_ptr<World>> meeting;
  std::vector<std::unique_ptr<ncclComm>> comms;
  std::uint64_t next_id = 1;
  std::string misuse;
  std::atomic<std::uint64_t> groups{0}, gathers{0}, executed{0}, bytes_sent{0};
};

State& state() {
  static auto* state = new State;
  return *state;
}

/// Of the calling thread's group.
struct Queued {
  Comm comm;
  cudaStream_t stream;
  std::vector<Message> messages;
};
thread_local int t_depth = 0;
thread_local std::vector<Queued> t_group;
thread_local std::string t_last_error;

Code fail(Code code, std::string why) {
  t_last_error = std::move(why);
  return code;
}

Code check(Comm comm, const char* call) {
  if (comm == nullptr) return fail(Code::invalid_argument, "comm is null");
  if (!comm->aborted && !comm->destroyed) return Code::success;
  const std::lock_guard lock(state().mutex);
  state().misuse +=
      std::string(call) + " on a communicator that was " + (comm->aborted ? "aborted" : "destroyed") + "\n";
  return fail(Code::invalid_argument, "comm is gone");
}

bool given_up(const ncclComm& comm) {
  return comm.aborted || fake_cuda::is_broken() || comm.error.load() > static_cast<int>(Code::success);
}

void spoil(World& world, Code code) {  // under its mutex
  for (const auto& [rank, comm] : world.members) comm->error = static_cast<int>(code);
  world.changed.notify_all();
}

// ---- a group, on a stream's thread

std::shared_ptr<Transfer> next_from(World& world, const ncclComm& comm, int peer) {
  auto& queue = world.sent[{peer, comm.rank}];
  if (queue.empty()) return nullptr;
  auto transfer = queue.front();
  queue.pop_front();
  return transfer;
}

class Group {
 public:
  Group(ncclComm& comm, const std::vector<Message>& messages) : comm_(comm), world_(*comm.world) {
    for (const Message& message : messages) {
      if (message.sends) continue;
      receives_.push_back(&message);
    }
    for (const Message& message : messages) {
      if (!message.sends) continue;
      auto transfer = std::make_shared<Transfer>();
      transfer->from = message.from;
      transfer->bytes = message.bytes;
      transfer->collective = message.collective;
      sends_.emplace_back(message.peer, std::move(transfer));
    }
  }

  void run() {
    std::unique_lock lock(world_.mutex);
    for (auto& [peer, transfer] : sends_) world_.sent[{comm_.rank, peer}].push_back(transfer);
    world_.changed.notify_all();
    while (!given_up(comm_)) {
      if (receive_one(lock)) continue;
      if (receives_.empty() && all_sent()) return;
      world_.changed.wait_for(lock, std::chrono::milliseconds(5));
    }
    // What was not taken will not be: its memory may go.
    for (auto& [peer, transfer] : sends_) std::erase(world_.sent[{comm_.rank, peer}], transfer);
    world_.changed.wait_for(lock, std::chrono::seconds(10), [&] { return none_being_read(); });
  }

 private:
  // The first message of each peer, whichever peer comes first: messages of a group do not wait for each
  // other.
  bool receive_one(std::unique_lock<std::mutex>& lock) {
    std::vector<int> waiting;
    for (auto place = receives_.begin(); place != receives_.end(); ++place) {
      const Message& message = **place;
      if (std::find(waiting.begin(), waiting.end(), message.peer) != waiting.end()) continue;
      auto transfer = next_from(world_, comm_, message.peer);
      if (transfer == nullptr) {
        waiting.push_back(message.peer);
        continue;
      }
      receives_.erase(place);
      take(lock, message, *transfer);
      return true;
    }
    return false;
  }

  void take(std::unique_lock<std::mutex>& lock, const Message& message, Transfer& transfer) {
    if (transfer.bytes != message.bytes || transfer.collective != message.collective) {
      return spoil(world_, Code::invalid_usage);
    }
    transfer.taken = true;
    lock.unlock();
    {
      const fake_cuda::DeviceAccess access;
      std::memcpy(message.to, transfer.from, message.bytes);
    }
    state().bytes_sent.fetch_add(message.bytes, std::memory_order_relaxed);
    lock.lock();
    transfer.done = true;
    world_.changed.notify_all();
  }

  bool all_sent() const {
    return std::all_of(sends_.begin(), sends_.end(), [](const auto& each) { return each.second->done; });
  }
  bool none_being_read() const {
    return std::none_of(sends_.begin(), sends_.end(),
                        [](const auto& each) { return each.second->taken && !each.second->done; });
  }

  ncclComm& comm_;
  World& world_;
  std::vector<const Message*> receives_;
  std::vector<std::pair<int, std::shared_ptr<Transfer>>> sends_;
};

void run_group(ncclComm& comm, const std::vector<Message>& messages) {
  if (given_up(comm)) return;
  state().executed.fetch_add(1, std::memory_order_relaxed);
  if (comm.running.exchange(true)) {
    const std::lock_guard lock(comm.world->mutex);
    return spoil(*comm.world, Code::invalid_usage);  // two groups at once
  }
  for (const Message& message : messages) {
    if (message.peer != comm.rank || message.sends) continue;  // an all-gather's own part
    const fake_cuda::DeviceAccess access;
    std::memmove(message.to, message.from, message.bytes);
  }
  std::vector<Message> others;
  for (const Message& message : messages) {
    if (message.peer != comm.rank) others.push_back(message);
  }
  Group(comm, others).run();
  comm.running = false;
}

// ---- the interface

Code get_version_of(int* version);
std::atomic<int> g_version{23007};
Code get_version_of(int* version) {
  *version = g_version;
  return Code::success;
}

Code get_unique_id(UniqueId* id) {
  const std::lock_guard lock(state().mutex);
  std::memset(id, 0, sizeof *id);
  const std::uint64_t number = state().next_id++;
  std::memcpy(id->bytes, &number, sizeof number);
  return Code::success;
}

bool is_complete(World& world) { return static_cast<int>(world.members.size()) == world.size; }

Code join(World& world, ncclComm& comm, int ranks) {
  const std::lock_guard lock(world.mutex);
  if (world.size == 0) world.size = ranks;
  if (world.size != ranks || world.members.count(comm.rank) != 0) {
    return fail(Code::invalid_argument, "ranks disagree about the communicator");
  }
  for (const auto& [rank, other] : world.members) {
    if (other->device == comm.device) {
      return fail(Code::invalid_usage, "Duplicate GPU detected : rank " + std::to_string(comm.rank) +
                                           " and rank " + std::to_string(rank) + " both on CUDA device");
    }
  }
  world.members[comm.rank] = &comm;
  world.changed.notify_all();
  return Code::success;
}

Code comm_init_rank_config(Comm* out, int ranks, UniqueId id, int rank, Config* config) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof number);
  if (rank < 0 || rank >= ranks || config == nullptr || config->magic != 0xcafebeef) {
    return fail(Code::invalid_argument, "rank, ranks or config");
  }
  ncclComm* comm = nullptr;
  {
    const std::lock_guard lock(state().mutex);
    auto& world = state().meeting[number];
    if (world == nullptr) world = std::make_shared<World>();
    state().comms.push_back(std::make_unique<ncclComm>());
    comm = state().comms.back().get();
    comm->world = world;
  }
  comm->rank = rank;
  comm->blocking = config->blocking != 0;
  cudaGetDevice(&comm->device);
  *out = comm;
  const Code joined = join(*comm->world, *comm, ranks);
  if (joined != Code::success || !comm->blocking) return joined == Code::success ? Code::in_progress : joined;
  std::unique_lock lock(comm->world->mutex);
  comm->world->changed.wait(lock, [&] { return is_complete(*comm->world); });
  return Code::success;
}

Code comm_destroy(Comm comm) {
  const Code code = check(comm, "ncclCommDestroy");
  if (code == Code::success) comm->destroyed = true;
  return code;
}

Code comm_abort(Comm comm) {
  const Code code = check(comm, "ncclCommAbort");
  if (code != Code::success) return code;
  comm->aborted = true;
  const std::lock_guard lock(comm->world->mutex);
  comm->world->changed.notify_all();
  return Code::success;
}

Code comm_get_async_error(Comm comm, Code* error) {
  const Code code = check(comm, "ncclCommGetAsyncError");
  if (code != Code::success) return code;
  *error = static_cast<Code>(comm->error.load());
  const std::lock_guard lock(comm->world->mutex);
  if (*error == Code::success && !is_complete(*comm->world)) *error = Code::in_progress;
  return Code::success;
}

Code comm_count(const Comm comm, int* ranks) {
  const Code code = check(comm, "ncclCommCount");
  if (code == Code::success) *ranks = comm->world->size;
  return code;
}

Code comm_user_rank(const Comm comm, int* rank) {
  const Code code = check(comm, "ncclCommUserRank");
  if (code == Code::success) *rank = comm->rank;
  return code;
}

Code group_start() {
  ++t_depth;
  return Code::success;
}

std::vector<Message>& queue_of(Comm comm, cudaStream_t stream) {
  for (Queued& queued : t_group) {
    if (queued.comm == comm && queued.stream == stream) return queued.messages;
  }
  return t_group.emplace_back(Queued{comm, stream, {}}).messages;
}

Code group_end() {
  if (t_depth == 0) return fail(Code::invalid_usage, "ncclGroupEnd without ncclGroupStart");
  if (--t_depth != 0) return Code::success;
  std::vector<Queued> group;
  group.swap(t_group);
  Code result = Code::success;
  for (Queued& queued : group) {
    const bool gathers = !queued.messages.empty() && queued.messages.front().collective;
    (gathers ? state().gathers : state().groups).fetch_add(1, std::memory_order_relaxed);
    ncclComm* comm = queued.comm;
    const auto body = [comm, messages = std::move(queued.messages)] { run_group(*comm, messages); };
    if (fake_cuda::enqueue_external(queued.stream, "nccl group", body) != cudaSuccess) {
      result = fail(Code::unhandled_cuda_error, "the stream refused");
    }
    if (result == Code::success && !comm->blocking) result = Code::in_progress;
  }
  return result;
}

Code queue(Comm comm, void* stream, const Message& message, const char* call) {
  Code code = check(comm, call);
  if (code != Code::success) return code;
  const void* memory = message.sends ? message.from : message.to;
  if (message.peer < 0 || message.peer >= comm->world->size || message.peer == comm->rank) {
    return fail(Code::invalid_argument, std::string(call) + ": no such peer");
  }
  if (message.bytes == 0 || !fake_cuda::is_device_memory(memory, message.bytes)) {
    return fail(Code::invalid_argument, std::string(call) + ": not device memory from end to end");
  }
  group_start();
  queue_of(comm, static_cast<cudaStream_t>(stream)).push_back(message);
  return group_end();
}

Code send(const void* data, std::size_t count, int type, int peer, Comm comm, void* stream) {
  if (type != 1) return fail(Code::invalid_argument, "the fake knows ncclUint8 only");
  return queue(comm, stream, {true, false, peer, data, nullptr, count}, "ncclSend");
}

Code recv(void* data, std::size_t count, int type, int peer, Comm comm, void* stream) {
  if (type != 1) return fail(Code::invalid_argument, "the fake knows ncclUint8 only");
  return queue(comm, stream, {false, false, peer, nullptr, data, count}, "ncclRecv");
}

Code all_gather(const void* mine, void* all, std::size_t count, int type, Comm comm, void* stream) {
  Code code = check(comm, "ncclAllGather");
  if (code != Code::success) return code;
  const auto ranks = static_cast<std::size_t>(comm->world->size);
  const bool valid = type == 1 && count != 0 && fake_cuda::is_device_memory(mine, count) &&
                     fake_cuda::is_device_memory(all, count * ranks);
  if (!valid) return fail(Code::invalid_argument, "ncclAllGather: not device memory from end to end");
  group_start();
  std::vector<Message>& messages = queue_of(comm, static_cast<cudaStream_t>(stream));
  for (int peer = 0; peer < comm->world->size; ++peer) {
    auto* to = static_cast<std::byte*>(all) + count * static_cast<std::size_t>(peer);
    if (peer != comm->rank) messages.push_back({true, true, peer, mine, nullptr, count});
    messages.push_back({false, true, peer, peer == comm->rank ? mine : nullptr, to, count});
  }
  return group_end();
}

const char* get_error_string(Code code) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "in progress"};
  const auto index = static_cast<std::size_t>(code);
  return index < std::size(kTexts) ? kTexts[index] : "unknown result code";
}

const char* get_last_error(Comm /*comm*/) { return t_last_error.c_str(); }

}  // namespace

namespace fake_nccl {

const Library& library(int version) {
  static Library library{Api{get_version_of, get_unique_id, comm_init_rank_config, comm_destroy, comm_abort,
                             comm_get_async_error, comm_count, comm_user_rank, group_start, group_end, send,
                             recv, all_gather, get_error_string, get_last_error},
                         version, "the fake NCCL"};
  library.version = version;
  g_version = version;
  return library;
}

Counters counters() { return {state().groups, state().gathers, state().executed, state().bytes_sent}; }

std::string misuse() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().misuse, {});
}

void kill(Comm comm) {
  const std::lock_guard lock(comm->world->mutex);
  for (const auto& [rank, member] : comm->world->members) {
    if (member != comm) member->error = static_cast<int>(Code::remote_error);
  }
  comm->world->changed.notify_all();
}

void reset() {
  const std::lock_guard lock(state().mutex);
  state().meeting.clear();
  state().comms.clear();
  state().misuse.clear();
  for (auto* counter : {&state().groups, &state().gathers, &state().executed, &state().bytes_sent})
    *counter = 0;
}

}  // namespace fake_nccl
