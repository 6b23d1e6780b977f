// A small store that each process serves, for ranks that have met once and must meet again without those whom
// they met through: the parts of a communicator that was split, the survivors of one that broke. Every rank
// knows where every other has its refuge, so there is a place to meet as long as anybody is left.
//
// One server a process and address, whatever the number of communicators; it takes a thread that sleeps and a
// port that the system chooses. Its job's name is random: who has not been told it is turned away.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/deadline.hpp"
#include "ferrule/status.hpp"
#include "rendezvous/store.hpp"

namespace ferrule::rendezvous {

/// This process's own. Thread safe.
class Refuge {
 public:
  /// Served at `address` (numeric) until the process ends.
  static Result<std::shared_ptr<Refuge>> at(const std::string& address);
  /// For ranks that are all in this process: nothing is served.
  static std::shared_ptr<Refuge> of_threads();

  /// How others open it: "address port job". Empty for threads.
  const std::string& text() const { return text_; }
  const std::shared_ptr<Store>& store() const { return store_; }
  /// Frees all keys that start with `prefix`.
  void forget(std::string_view prefix) { forget_(prefix); }
  /// Sets a key that says something for ever. The oldest of very many are forgotten.
  void note(const std::string& key);

 private:
  static constexpr std::size_t kMostNotes = 4096;
  using Forget = std::function<void(std::string_view prefix)>;

  Refuge(std::string text, std::shared_ptr<Store> store, Forget forget)
      : text_(std::move(text)), store_(std::move(store)), forget_(std::move(forget)) {}
  static Result<std::shared_ptr<Refuge>> serve(const std::string& address);

  std::string text_;
  std::shared_ptr<Store> store_;
  Forget forget_;
  std::mutex mutex_;  // guards notes_
  std::deque<std::string> notes_;
};

/// Another process's refuge. `peer_lost`: nobody serves it any more, so its process has ended. `timeout`:
/// silence, which proves nothing.
Result<std::shared_ptr<Store>> open_refuge(const std::string& text, Deadline deadline);

}  // namespace ferrule::rendezvous
