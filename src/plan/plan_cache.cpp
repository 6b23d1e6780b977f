#include "plan/plan_cache.hpp"

#include <cstdint>
#include <utility>

namespace ferrule::plan {

std::size_t PlanCache::Hash::operator()(const Key& key) const {
  const std::uint64_t words[] = {key.count,
                                 static_cast<std::uint64_t>(key.dtype),
                                 static_cast<std::uint64_t>(key.op),
                                 reinterpret_cast<std::uintptr_t>(key.codec),
                                 reinterpret_cast<std::uintptr_t>(key.algorithm),
                                 static_cast<std::uint64_t>(key.collective),
                                 static_cast<std::uint64_t>(key.root)};
  std::uint64_t hash = hash_bytes(words, sizeof words);
  for (const auto* counts : {&key.counts, &key.recv_counts}) {
    if (!counts->empty()) hash = hash_bytes(counts->data(), counts->size() * sizeof(std::size_t), hash);
  }
  return hash;
}

std::shared_ptr<const Plan> PlanCache::find(const Request& request) {
  const auto found = index_.find(key_of(request));
  if (found == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->plan;
}

void PlanCache::insert(const Request& request, std::shared_ptr<const Plan> plan) {
  entries_.push_front({key_of(request), request.codec, std::move(plan)});
  index_[entries_.front().key] = entries_.begin();
  if (entries_.size() <= capacity_) return;
  index_.erase(entries_.back().key);
  entries_.pop_back();
}

}  // namespace ferrule::plan
