// Questions for the simulator, with everything given that a closed form needs.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "bench/sim/simulate.hpp"

namespace ferrule::sim {

inline constexpr double kLatencyNs = 30'000;
inline constexpr double kNsPerByte = 8;  // 1 Gbit/s
inline constexpr double kHeaderBytes = 64;

/// Every rank has one port, and all are joined by one link.
inline Levels flat(LinkRate link = {kLatencyNs, kNsPerByte}) { return {{{kEverybody, link, "flat"}}}; }

/// Nodes of `ranks`, ten times faster inside.
inline Levels nodes_of(std::int32_t ranks) {
  const LinkRate outside{kLatencyNs, kNsPerByte};
  return {{{ranks, {kLatencyNs / 10, kNsPerByte / 10}, "node"}, {kEverybody, outside, "network"}}};
}

inline LevelCodec level_codec(const std::string& text, CodecRates rates = {}) {
  return {std::move(codec::make_codec(text)).value(), rates};
}

/// One slice, arithmetic free of charge.
inline Question question(const std::string& algorithm, const Place& place, std::size_t count) {
  Question q;
  q.algorithm = collectives::find_algorithm(algorithm);
  EXPECT_NE(q.algorithm, nullptr) << algorithm;
  q.codecs = {level_codec("none")};
  q.tensor = {count, DType::f32};
  q.place = place;
  q.slice_bytes = std::size_t{1} << 40;
  q.header_bytes = kHeaderBytes;
  return q;
}

inline Place place(std::int32_t world, const Levels& levels = flat(), const Stragglers& stragglers = {}) {
  auto made = place_of(world, levels, stragglers);
  EXPECT_TRUE(made.ok()) << made.status().text();
  return std::move(made).value();
}

inline Answer answer(const Question& q) {
  auto result = simulate(q);
  EXPECT_TRUE(result.ok()) << result.status().text();
  return result.ok() ? std::move(result).value() : Answer{};
}

inline double time_ns(const Question& q) { return answer(q).outcome.time_ns; }

}  // namespace ferrule::sim
