// The vigil: ranks on several hosts watch each other, so that a death is known everywhere at once.
//
// No rank can watch a process on another host but by a connection to it, and a connection to everybody costs
// too much. So each rank is connected to its parent and its children in a tree of 32 branches: at most 33
// connections a rank, and three steps between any two of 10,000. When a connection ends without a farewell,
// its peer has died. Both neighbours of the dead (all that are left of them) pass that on, and so does
// everybody who hears of it for the first time: whatever part of the tree a rank is cut off with, a neighbour
// of a dead rank is in it. A thread does this, because ranks compute while others wait.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/secret_key.hpp"
#include "ferrule/status.hpp"
#include "transport/registry.hpp"

namespace ferrule::transport {

/// What travels on the tree. Fixed size: there is no length to be lied about.
struct VigilWord {
  static constexpr std::uint32_t kMagic = 0x4c475646;  // "FVGL"
  enum class Kind : std::uint32_t { hello = 1, lost = 2, farewell = 3 };

  std::uint32_t magic = kMagic;
  Kind kind = Kind::hello;
  std::uint64_t communicator = 0;
  std::int32_t source = 0;
  std::int32_t subject = 0;                        ///< hello: the rank that it is for. lost: who has died
  std::array<char, SecretKey::kTagBytes> proof{};  ///< of a hello, over all of the above; see SecretKey
};
static_assert(sizeof(VigilWord) == 40);

class Vigil {
 public:
  /// Who watches whom.
  static constexpr std::int32_t kBranches = 32;
  static std::int32_t parent_of(std::int32_t rank) { return rank == 0 ? -1 : (rank - 1) / kBranches; }
  static std::vector<std::int32_t> children_of(std::int32_t rank, std::int32_t size);

  /// Listens on this rank's own address, if it has children.
  static Result<std::unique_ptr<Vigil>> listen(const Membership& membership);
  ~Vigil();
  Vigil(const Vigil&) = delete;
  Vigil& operator=(const Vigil&) = delete;

  std::uint16_t port() const { return port_; }
  /// Connects to the parent and waits for the children. ports[r] is rank r's. `timeout`, `peer_lost`: naming
  /// who is missing or gone.
  Status connect(std::span<const std::uint16_t> ports, Deadline deadline);

  /// Readable when there is news.
  int news() const { return news_.get(); }
  /// Ranks that have died since the last call. Any thread.
  std::vector<std::int32_t> take();

 private:
  struct Neighbour {
    std::int32_t rank = -1;
    Descriptor socket;
    VigilWord word;         ///< one that is arriving
    std::size_t bytes = 0;  ///< of it that are here
    bool left = false;      ///< its farewell has arrived
  };
  /// Somebody who has connected and not yet said who it is.
  struct Stranger {
    Descriptor socket;
    Deadline until;
    VigilWord word;
    std::size_t bytes = 0;
  };

  explicit Vigil(const Membership& membership) : membership_(membership) {}

  // vigil_connect.cpp
  VigilWord hello_to(std::int32_t rank) const;
  bool is_hello_of(const VigilWord& word, std::int32_t rank) const;
  Status open_listener();
  Status connect_to_parent(std::uint16_t port, Deadline deadline);
  Status greet_parent(Descriptor socket, Deadline deadline);
  Status wait_for_children(Deadline deadline);
  void accept_strangers(std::vector<Stranger>& strangers) const;
  /// The child that it has turned out to be; -1: not yet known, or nobody.
  std::int32_t recognise(Stranger& stranger) const;
  bool is_missing(std::int32_t child) const;
  Status missing_children() const;

  // vigil.cpp
  void keep();
  void look_at(Neighbour& neighbour);
  void take_word(Neighbour& from);
  void end_of(Neighbour& neighbour);
  void note(std::int32_t dead, std::int32_t told_by);
  void send_to(Neighbour& to, VigilWord::Kind kind, std::int32_t subject) const;

  const Membership membership_;
  std::vector<std::int32_t> children_;
  Descriptor listener_;
  std::uint16_t port_ = 0;
  std::vector<Neighbour> neighbours_;  ///< the thread's, once it runs
  Descriptor news_;
  Descriptor stop_;
  std::mutex mutex_;                 // guards the two below
  std::vector<std::int32_t> fresh_;  ///< not yet taken
  std::vector<char> known_;          ///< by rank: has died, and has been passed on
  std::thread thread_;
};

}  // namespace ferrule::transport
