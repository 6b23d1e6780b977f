// An NCCL communicator as a StreamLink.
//
// Communicators that we make are non-blocking ones: every call returns at once and its end is asked for, so
// that making one, and the connections of a first message, have a deadline. One of the user's may be of
// either kind; it is used, and aborted when a collective on it fails (NCCL knows no other way), but never
// destroyed.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "transport/nccl/nccl_library.hpp"
#include "transport/registry.hpp"
#include "transport/stream_link.hpp"

namespace ferrule::transport::nccl {

class NcclLink final : public StreamLink {
 public:
  /// All ranks at once. The calling thread's current device is the rank's; NCCL before 2.30 refuses two ranks
  /// on one.
  static Result<std::unique_ptr<NcclLink>> connect(const Membership& membership, const Exchange& exchange,
                                                   Deadline deadline);
  /// The user's, of which NCCL is asked rank and size. It must outlive the link, and nobody else may use it
  /// while a collective is being enqueued.
  static Result<std::unique_ptr<NcclLink>> adopt(Comm comm);

  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;
  ~NcclLink() override;

  std::string_view name() const override { return "nccl"; }
  std::int32_t rank() const override { return rank_; }
  std::int32_t size() const override { return size_; }
  Status exchange(const StreamBatch& batch, void* stream, Deadline deadline) override;
  Status all_gather(const Gather& gather, void* stream, Deadline deadline) override;
  /// For calls of NCCL that this link has no words for; null once it was never made.
  Comm comm() const { return comm_; }
  Status health() override;
  void abort() override;

 private:
  NcclLink(const Library& library, Comm comm, bool owned) : library_(library), comm_(comm), owned_(owned) {}
  Status start(const UniqueId& id, const Membership& membership, Deadline deadline);
  /// Waits for the end of a call that is still in progress; names what failed.
  Status finish(Code code, const char* what, Deadline deadline);
  Status failed(Code code, const char* what) const;
  Status refuse_aborted() const;
  Code enqueue(const StreamBatch& batch, void* stream) const;

  const Library& library_;
  Comm comm_ = nullptr;
  const bool owned_;
  std::int32_t rank_ = 0;
  std::int32_t size_ = 1;
  std::mutex mutex_;  ///< of the communicator's life: health() and abort() come from other threads
  std::atomic<bool> aborted_{false};
};

}  // namespace ferrule::transport::nccl
