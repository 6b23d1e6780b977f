// What a communicator knows of where it comes from, for those that are made of it: its parts (split) and what
// is left of it (shrink).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "communicator/connect.hpp"
#include "rendezvous/refuge.hpp"
#include "transport/registry.hpp"

namespace ferrule::communicator {

/// One rank's view of a communicator that was made from nothing, or by a split, and of all that shrinks make
/// of it. They share it: ranks that try again after a shrink that went well for some and badly for others
/// must find each other, whatever they hold.
struct Lineage {
  Lineage(transport::Membership first, Config given, bool threads)
      : root(std::move(first)), config(std::move(given)), one_process(threads) {}
  Lineage(const Lineage&) = delete;
  Lineage& operator=(const Lineage&) = delete;
  /// Tells those who may ask that this rank takes part in nothing more of it.
  ~Lineage();

  const transport::Membership root;  ///< of the first communicator
  const Config config;
  const bool one_process;                      ///< all ranks are threads
  std::shared_ptr<rendezvous::Refuge> refuge;  ///< this process's; null where none could be served
  std::vector<std::string> refuges;            ///< of each rank of root

  /// Keys of this lineage in a refuge start with this.
  std::string key(std::string_view what) const;
  /// The key that says that a rank of root takes part no more.
  std::string left_key(std::int32_t rank) const;

  // Posts of musters, numbered by pairs of ranks: see muster.cpp.
  std::map<std::int32_t, std::uint32_t> posted;  ///< by leader: how many this rank has made
  std::map<std::int32_t, std::uint32_t> heard;   ///< by rank: how many of its posts were taken here
  std::uint32_t rounds = 0;                      ///< led here
  std::mutex one_at_a_time;                      ///< for whoever uses these three
};

}  // namespace ferrule::communicator
