#include "base/membership.hpp"

#include <gtest/gtest.h>

namespace ferrule {
namespace {

Membership of(std::vector<std::pair<std::string, std::string>> hosts_and_memories) {
  Membership membership;
  for (const auto& [host, memory] : hosts_and_memories) {
    membership.peers.push_back({"name", host, 1, "10.0.0.1", 0, 0, memory});
  }
  return membership;
}

TEST(Membership, OneHostIsWhereAllIdsAreEqual) {
  EXPECT_TRUE(of({{"a", "m"}, {"a", "m"}}).single_host());
  EXPECT_FALSE(of({{"a", "m"}, {"b", "m"}}).single_host());
}

TEST(Membership, MemoryIsSharedAcrossHostsOnlyWhereTwoHostsHaveTheSame) {
  EXPECT_TRUE(of({{"a", "m"}, {"c", "n"}, {"b", "m"}}).shares_memory_across_hosts());
  EXPECT_FALSE(of({{"a", "m"}, {"b", "n"}}).shares_memory_across_hosts());
  EXPECT_FALSE(of({{"a", "m"}, {"a", "m"}}).shares_memory_across_hosts());
  EXPECT_FALSE(of({{"a", ""}, {"b", ""}}).shares_memory_across_hosts());  // not known
}

TEST(Membership, ARankIsDescribedByItsHostAndProcess) {
  EXPECT_EQ(of({{"a", "m"}}).describe(0), "rank 0 (host name, pid 1)");
  EXPECT_EQ(of({{"a", "m"}}).describe(7), "rank 7");
}

}  // namespace
}  // namespace ferrule
