// Plans by request. Every rank makes the same requests in the same order, so every rank's cache holds the
// same plans; where it does not, the ranks notice by the fingerprint in every message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "plan/plan.hpp"

namespace ferrule::plan {

/// Least recently used plans fall out beyond the capacity. Not thread safe: the communicator guards it.
class PlanCache {
 public:
  explicit PlanCache(std::size_t capacity) : capacity_(capacity) {}

  /// Null if there is none.
  std::shared_ptr<const Plan> find(const Request& request);
  void insert(const Request& request, std::shared_ptr<const Plan> plan);
  std::size_t size() const { return entries_.size(); }

 private:
  // The codec is named by its address: the entry keeps it alive, and the communicator keeps one per text.
  struct Key {
    std::size_t count;
    DType dtype;
    ReduceOp op;
    const codec::Codec* codec;
    const collectives::AlgorithmDesc* algorithm;
    collectives::Collective collective;
    std::int32_t root;
    std::vector<std::size_t> counts;
    std::vector<std::size_t> recv_counts;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  struct Entry {
    Key key;
    std::shared_ptr<const codec::Codec> codec;
    std::shared_ptr<const Plan> plan;
  };

  static Key key_of(const Request& request) {
    return {request.count,      request.dtype, request.op,     request.codec.get(), request.algorithm,
            request.collective, request.root,  request.counts, request.recv_counts};
  }

  std::size_t capacity_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<Key, std::list<Entry>::iterator, Hash> index_;
};

}  // namespace ferrule::plan
