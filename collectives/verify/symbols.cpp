#include "collectives/verify/symbols.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/verify/findings.hpp"

namespace ferrule::collectives::verifier {

std::uint32_t Symbols::encode(const Recipe& recipe, Place place, ErrorKept error) {
  const auto [entry, is_new] = numbers_.try_emplace(recipe, static_cast<std::uint32_t>(encoded_.size()));
  if (is_new) {
    std::vector<std::uint32_t> by_level(recipe.level + 1, 0);
    depths(recipe.value, by_level);
    ++by_level[recipe.level];
    encoded_.push_back({recipe, place, {}, contributors(recipe.value), depth(recipe.value) + 1, by_level});
  }
  Encoded& encoded = encoded_[entry->second];
  if (place.rank < encoded.place.rank) encoded.place = place;
  if (error != ErrorKept::none) encoded.keepers.push_back(place);
  return entry->second;
}

std::vector<std::int32_t> Symbols::contributors(const Value& value) const {
  std::vector<std::int32_t> ranks;
  for (const Term& term : value) {
    if (term.kind == Term::Kind::input) {
      ranks.push_back(static_cast<std::int32_t>(term.index));
    } else {
      const auto& more = encoded_[term.index].contributors;
      ranks.insert(ranks.end(), more.begin(), more.end());
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::uint32_t Symbols::depth(const Value& value) const {
  std::uint32_t deepest = 0;
  for (const Term& term : value) {
    if (term.kind == Term::Kind::decoded) deepest = std::max(deepest, encoded_[term.index].depth);
  }
  return deepest;
}

void Symbols::depths(const Value& value, std::vector<std::uint32_t>& deepest) const {
  for (const Term& term : value) {
    if (term.kind != Term::Kind::decoded) continue;
    const auto& these = encoded_[term.index].depths;
    if (deepest.size() < these.size()) deepest.resize(these.size(), 0);
    for (std::size_t i = 0; i < these.size(); ++i) deepest[i] = std::max(deepest[i], these[i]);
  }
}

bool Symbols::in_rank_order(const Value& value, std::size_t world) const {
  const Value* sum = &value;
  while (sum->size() == 1 && sum->front().kind == Term::Kind::decoded) {
    sum = &encoded_[sum->front().index].recipe.value;
  }
  if (sum->size() != world) return false;
  for (std::size_t rank = 0; rank < world; ++rank) {
    if (contributors({(*sum)[rank]}) != std::vector{static_cast<std::int32_t>(rank)}) return false;
  }
  return true;
}

std::string Symbols::describe(const Value& value) const {
  if (value.size() != 1) {
    return fmt::format("a sum of {} terms that begins with {}", value.size(), describe({value.front()}));
  }
  if (value[0].kind == Term::Kind::input) return fmt::format("the own input of rank {}", value[0].index);
  return fmt::format("the bytes that {} encoded", Findings::where(encoded_[value[0].index].place));
}

}  // namespace ferrule::collectives::verifier
