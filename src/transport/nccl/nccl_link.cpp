#include "transport/nccl/nccl_link.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/log.hpp"

namespace ferrule::transport::nccl {
namespace {

/// Between looks at a call that is in progress. Making connections takes milliseconds.
constexpr std::chrono::microseconds kLook{50};

std::string as_text(const UniqueId& id) {
  std::string text;
  for (const char byte : id.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

Result<UniqueId> as_id(const std::string& text) {
  UniqueId id{};
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  bool good = text.size() == 2 * sizeof id.bytes;
  for (std::size_t i = 0; good && i < sizeof id.bytes; ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    good = high >= 0 && low >= 0;
    id.bytes[i] = static_cast<char>(good ? high * 16 + low : 0);
  }
  if (good) return id;
  return Status(ErrorCode::corrupt,
                fmt::format("rank 0's unique id of NCCL has {} characters, or others than hexadecimal digits",
                            text.size()));
}

// "22809 0123...": the version, and of rank 0 the unique id.
Result<std::string> own_card(const Library& library, std::int32_t rank) {
  std::string card = std::to_string(library.version);
  if (rank != 0) return card;
  UniqueId id{};
  const Code code = library.api.get_unique_id(&id);
  if (code == Code::success) return card + " " + as_text(id);
  return Status(ErrorCode::system, fmt::format("NCCL {}: ncclGetUniqueId: {}", version_text(library.version),
                                               library.api.get_error_string(code)));
}

Status check_versions(const Membership& membership, const std::vector<std::string>& cards,
                      const Library& own) {
  for (std::int32_t rank = 0; rank < membership.size(); ++rank) {
    const int theirs = std::atoi(cards[static_cast<std::size_t>(rank)].c_str());
    if (theirs == own.version) continue;
    return {
        ErrorCode::mismatch,
        fmt::format("{} runs NCCL {} ({}), {} runs NCCL {}: use the same on all ranks (FERRULE_NCCL_LIBRARY "
                    "names a file)",
                    membership.describe(membership.rank), version_text(own.version), own.where,
                    membership.describe(rank), version_text(theirs))};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<NcclLink>> NcclLink::connect(const Membership& membership, const Exchange& exchange,
                                                    Deadline deadline) {
  auto found = library();
  // A rank without NCCL says so to the others, which would wait for it otherwise.
  std::string card = "0";
  Status own_trouble = found.status();
  if (found.ok()) {
    auto made = own_card(**found, membership.rank);
    own_trouble = made.status();
    if (made.ok()) card = *made;
  }
  auto cards = exchange("nccl", card);
  FERRULE_RETURN_IF_ERROR(own_trouble);
  FERRULE_RETURN_IF_ERROR(cards.status());
  if (cards->size() != membership.peers.size()) {
    return Status(ErrorCode::internal, fmt::format("the exchange for NCCL gave {} values for {} ranks",
                                                   cards->size(), membership.size()));
  }
  FERRULE_RETURN_IF_ERROR(check_versions(membership, *cards, **found));
  const std::string& first = cards->front();
  auto id = as_id(first.substr(std::min(first.find(' ') + 1, first.size())));
  FERRULE_RETURN_IF_ERROR(id.status());
  std::unique_ptr<NcclLink> link(new NcclLink(**found, nullptr, true));
  FERRULE_RETURN_IF_ERROR(link->start(*id, membership, deadline));
  return link;
}

Result<std::unique_ptr<NcclLink>> NcclLink::adopt(Comm comm) {
  if (comm == nullptr) return Status(ErrorCode::invalid_argument, "the NCCL communicator is null");
  auto found = library();
  FERRULE_RETURN_IF_ERROR(found.status());
  std::unique_ptr<NcclLink> link(new NcclLink(**found, comm, false));
  Code code = (*found)->api.comm_count(comm, &link->size_);
  if (code == Code::success) code = (*found)->api.comm_user_rank(comm, &link->rank_);
  if (code == Code::success) return link;
  return Status(ErrorCode::invalid_argument,
                fmt::format("not a usable NCCL communicator: {}", (*found)->api.get_error_string(code)));
}

Status NcclLink::start(const UniqueId& id, const Membership& membership, Deadline deadline) {
  rank_ = membership.rank;
  size_ = membership.size();
  Config config;
  config.blocking = 0;
  const Code code = library_.api.comm_init_rank_config(&comm_, size_, id, rank_, &config);
  Status status = finish(code, "ncclCommInitRankConfig", deadline);
  if (status.code() == ErrorCode::timeout) {
    status = Status(ErrorCode::timeout,
                    fmt::format("{}: not all of the {} ranks came to make an NCCL communicator",
                                membership.describe(rank_), size_));
  }
  if (!status.ok()) abort();
  return status;
}

NcclLink::~NcclLink() {
  const std::lock_guard lock(mutex_);
  if (!owned_ || comm_ == nullptr || aborted_) return;
  const Code code = library_.api.comm_destroy(comm_);
  if (code != Code::success && code != Code::in_progress) {
    log::warn("NCCL: ncclCommDestroy: {}", library_.api.get_error_string(code));
  }
}

// ---- errors

Status NcclLink::failed(Code code, const char* what) const {
  const char* detail = library_.api.get_last_error(aborted_ ? nullptr : comm_);
  const auto kind = code == Code::remote_error                                      ? ErrorCode::peer_lost
                    : code == Code::invalid_argument || code == Code::invalid_usage ? ErrorCode::internal
                                                                                    : ErrorCode::system;
  return {kind,
          fmt::format("NCCL {} on rank {} of {}: {}: {}{}{}", version_text(library_.version), rank_, size_,
                      what, library_.api.get_error_string(code),
                      detail != nullptr && *detail != '\0' ? ": " : "", detail != nullptr ? detail : "")};
}

Status NcclLink::refuse_aborted() const {
  if (!aborted_) return {};
  return {ErrorCode::aborted,
          fmt::format("the NCCL communicator was aborted on rank {} of {}", rank_, size_)};
}

Status NcclLink::finish(Code code, const char* what, Deadline deadline) {
  while (code == Code::in_progress) {
    if (deadline.passed()) {
      return {ErrorCode::timeout,
              fmt::format("NCCL on rank {} of {}: {} did not end by its deadline", rank_, size_, what)};
    }
    std::this_thread::sleep_for(kLook);
    const std::lock_guard lock(mutex_);
    FERRULE_RETURN_IF_ERROR(refuse_aborted());
    const Code asked = library_.api.comm_get_async_error(comm_, &code);
    if (asked != Code::success) return failed(asked, "ncclCommGetAsyncError");
  }
  return code == Code::success ? Status() : failed(code, what);
}

Status NcclLink::health() {
  const std::lock_guard lock(mutex_);
  FERRULE_RETURN_IF_ERROR(refuse_aborted());
  Code error = Code::success;
  const Code asked = library_.api.comm_get_async_error(comm_, &error);
  if (asked != Code::success) return failed(asked, "ncclCommGetAsyncError");
  if (error == Code::success || error == Code::in_progress) return {};
  return failed(error, "a collective");
}

void NcclLink::abort() {
  const std::lock_guard lock(mutex_);
  if (aborted_.exchange(true) || comm_ == nullptr) return;
  const Code code = library_.api.comm_abort(comm_);
  if (code != Code::success && code != Code::in_progress) {
    log::warn("NCCL: ncclCommAbort: {}", library_.api.get_error_string(code));
  }
}

// ---- messages

Code NcclLink::enqueue(const StreamBatch& batch, void* stream) const {
  Code first = Code::success;
  const auto note = [&](Code code) {
    if (first == Code::success && code != Code::in_progress) first = code;
  };
  for (const StreamMessage& send : batch.sends) {
    note(library_.api.send(send.data, send.bytes, kUint8, send.peer, comm_, stream));
  }
  for (const StreamMessage& receive : batch.receives) {
    note(library_.api.recv(receive.data, receive.bytes, kUint8, receive.peer, comm_, stream));
  }
  return first;
}

Status NcclLink::exchange(const StreamBatch& batch, void* stream, Deadline deadline) {
  if (batch.sends.empty() && batch.receives.empty()) return {};
  Code ended = Code::success;
  {
    const std::lock_guard lock(mutex_);
    FERRULE_RETURN_IF_ERROR(refuse_aborted());
    const Code begun = library_.api.group_start();
    if (begun != Code::success) return failed(begun, "ncclGroupStart");
    const Code queued = enqueue(batch, stream);
    ended = library_.api.group_end();  // also after an error: the group must not stay open
    if (queued != Code::success) return failed(queued, "ncclSend or ncclRecv");
  }
  return finish(ended, "ncclGroupEnd", deadline);
}

Status NcclLink::all_gather(const Gather& gather, void* stream, Deadline deadline) {
  Code code = Code::success;
  {
    const std::lock_guard lock(mutex_);
    FERRULE_RETURN_IF_ERROR(refuse_aborted());
    code = library_.api.all_gather(gather.mine, gather.all, gather.bytes, kUint8, comm_, stream);
  }
  return finish(code, "ncclAllGather", deadline);
}

}  // namespace ferrule::transport::nccl
