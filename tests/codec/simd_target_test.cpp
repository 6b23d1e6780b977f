// The choice of the SIMD target.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "codec/simd/target.hpp"

namespace ferrule::codec::simd {
namespace {

using ::testing::HasSubstr;

TEST(SimdTarget, ScalarIsAlwaysAvailableAndLast) {
  const std::vector<Target> targets = available_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(targets.back(), kScalar);
  EXPECT_EQ(std::set<Target>(targets.begin(), targets.end()).size(), targets.size());
}

TEST(SimdTarget, EveryNameIsReadBack) {
  for (const Target target : available_targets()) {
    const Result<Target> parsed = parse_target(target_name(target));
    ASSERT_TRUE(parsed.ok()) << target_name(target);
    EXPECT_EQ(*parsed, target);
  }
}

TEST(SimdTarget, AnUnknownNameIsAnErrorThatListsWhatThereIs) {
  for (const char* name : {"", "AVX2", "avx9", "scalar "}) {
    const Result<Target> parsed = parse_target(name);
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_EQ(parsed.status().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(parsed.status().text(), HasSubstr(std::string("'") + name + "'"));
    for (const Target target : available_targets()) {
      EXPECT_THAT(parsed.status().text(), HasSubstr(target_name(target)));
    }
  }
}

TEST(SimdTarget, AScopeChangesTheTargetAndPutsItBack) {
  const Target before = active_target();
  for (const Target target : available_targets()) {
    const ScopedTarget scope(target);
    EXPECT_EQ(active_target(), target);
    EXPECT_EQ(simd_target_name(), target_name(target));
  }
  EXPECT_EQ(active_target(), before);
}

}  // namespace
}  // namespace ferrule::codec::simd
