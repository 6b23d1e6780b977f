// Hash table from (peer, sequence, slice, ordinal) to what is known of that message: the receive that waits
// for it, or the early message that waits for its receive. Open addressing with linear probing; entries are
// 32 bytes, erasing shifts back, so that there are no tombstones and, once it has grown to the largest number
// of messages in flight, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace ferrule::transport {

struct Recv;

struct MatchKey {
  std::uint64_t peer_sequence = 0;
  std::uint64_t slice_ordinal = 0;

  static MatchKey make(std::int32_t peer, std::uint32_t sequence, std::uint32_t slice,
                       std::uint32_t ordinal) {
    return {(std::uint64_t{static_cast<std::uint32_t>(peer)} << 32) | sequence,
            (std::uint64_t{slice} << 32) | ordinal};
  }
  friend bool operator==(const MatchKey&, const MatchKey&) = default;
};

class MatchTable {
 public:
  static constexpr std::uint32_t kNoEarly = std::numeric_limits<std::uint32_t>::max();

  struct Entry {
    MatchKey key;
    Recv* recv = nullptr;            ///< posted receive, or null
    std::uint32_t early = kNoEarly;  ///< index of the early message, or kNoEarly

    bool empty() const { return recv == nullptr && early == kNoEarly; }
  };

  MatchTable() : entries_(64) {}

  /// The entry of a key, or null. Valid until the next insert or erase.
  Entry* find(const MatchKey& key) {
    for (std::size_t at = home(key);; at = next(at)) {
      if (entries_[at].empty()) return nullptr;
      if (entries_[at].key == key) return &entries_[at];
    }
  }
  const Entry* find(const MatchKey& key) const { return const_cast<MatchTable*>(this)->find(key); }

  /// The key must be absent, the entry not empty.
  void insert(const Entry& entry) {
    if (2 * (count_ + 1) > entries_.size()) grow();
    place(entry);
    ++count_;
  }

  void erase(Entry* entry) {
    auto hole = static_cast<std::size_t>(entry - entries_.data());
    // Move later entries of the same run back, as long as that does not put one before its home.
    for (std::size_t at = next(hole); !entries_[at].empty(); at = next(at)) {
      const std::size_t mask = entries_.size() - 1;
      if (((at - home(entries_[at].key)) & mask) < ((at - hole) & mask)) continue;
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole] = Entry{};
    --count_;
  }

  std::size_t count() const { return count_; }
  /// All places, the empty ones too: for the rare walk over everything.
  const std::vector<Entry>& places() const { return entries_; }

 private:
  std::size_t home(const MatchKey& key) const {
    std::uint64_t hash = key.peer_sequence * 0x9e3779b97f4a7c15u ^ key.slice_ordinal * 0xc2b2ae3d27d4eb4fu;
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93u;
    return static_cast<std::size_t>(hash >> 32) & (entries_.size() - 1);
  }
  std::size_t next(std::size_t at) const { return (at + 1) & (entries_.size() - 1); }

  void place(const Entry& entry) {
    std::size_t at = home(entry.key);
    while (!entries_[at].empty()) at = next(at);
    entries_[at] = entry;
  }

  void grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (!entry.empty()) place(entry);
    }
  }

  std::vector<Entry> entries_;  ///< size is a power of two, at most half full
  std::size_t count_ = 0;
};

}  // namespace ferrule::transport
