// Symbolic values: what is known about numbers without having any.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collectives/verify.hpp"

namespace ferrule::collectives::verifier {

/// What is added to a sum: a rank's own input, or decoded bytes.
struct Term {
  enum class Kind : std::uint8_t { input, decoded };
  Kind kind = Kind::input;
  std::uint32_t index = 0;  ///< the rank, or the number of the encoded bytes

  friend auto operator<=>(const Term&, const Term&) = default;
};

/// Terms in the order in which they are added. Two values are the same bits if they are equal.
using Value = std::vector<Term>;

/// Encoded bytes. Two encodes give the same bytes if these fields are equal.
struct Recipe {
  std::uint32_t chunk = 0;
  std::uint32_t level = 0;  ///< of the codec
  Value value;
  std::int32_t residual_rank = -1;  ///< whose residual was added, -1: nobody's
  std::int32_t noise_rank = -1;

  friend auto operator<=>(const Recipe&, const Recipe&) = default;
};

/// Encoded bytes and everything known about them.
struct Encoded {
  Recipe recipe;
  Place place;                             ///< of the encode that makes them, on the lowest rank that does
  std::vector<Place> keepers;              ///< encodes whose rank keeps the error
  std::vector<std::int32_t> contributors;  ///< ranks whose input is in them, ascending, with repetitions
  std::uint32_t depth = 0;                 ///< longest chain of encodes, this one included
  std::vector<std::uint32_t> depths;       ///< the same of each level by itself
};

class Symbols {
 public:
  /// The number of the bytes that an encode gives: that of an earlier one if the recipe is the same.
  std::uint32_t encode(const Recipe& recipe, Place place, ErrorKept error);

  const std::vector<Encoded>& all() const { return encoded_; }
  /// Ranks whose input is in the value, ascending, with repetitions.
  std::vector<std::int32_t> contributors(const Value& value) const;
  /// Longest chain of encodes behind the value.
  std::uint32_t depth(const Value& value) const;
  /// The same of each level by itself: raises the entries of `deepest` to at least that.
  void depths(const Value& value, std::vector<std::uint32_t>& deepest) const;
  /// Is it one addition of the contributions of rank 0, 1, 2, ... in this order?
  bool in_rank_order(const Value& value, std::size_t world) const;
  /// For people: "the bytes that rank 2, step 7 encoded".
  std::string describe(const Value& value) const;

 private:
  std::vector<Encoded> encoded_;
  std::map<Recipe, std::uint32_t> numbers_;
};

}  // namespace ferrule::collectives::verifier
