#include "bench/ferrule_bench/sizes.hpp"

#include <gmock/gmock.h>

namespace ferrule::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::uint64_t bytes_of(const char* text) {
  const auto bytes = parse_bytes(text);
  EXPECT_TRUE(bytes.ok()) << text << ": " << bytes.status().text();
  return bytes.ok() ? *bytes : ~std::uint64_t{0};
}

TEST(ParseBytes, KnowsUnits) {
  EXPECT_EQ(bytes_of("0"), 0u);
  EXPECT_EQ(bytes_of("8"), 8u);
  EXPECT_EQ(bytes_of("8B"), 8u);
  EXPECT_EQ(bytes_of("64K"), 65536u);
  EXPECT_EQ(bytes_of("64k"), 65536u);
  EXPECT_EQ(bytes_of("128M"), std::uint64_t{128} << 20);
  EXPECT_EQ(bytes_of("128MB"), std::uint64_t{128} << 20);
  EXPECT_EQ(bytes_of("1G"), std::uint64_t{1} << 30);
  EXPECT_EQ(bytes_of("2GiB"), std::uint64_t{2} << 30);
  EXPECT_EQ(bytes_of("1T"), std::uint64_t{1} << 40);
  EXPECT_EQ(bytes_of("1.5K"), 1536u);
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "K", "-1", "-1K", "8X", "8 K", "1e3", "8KK", "8KX", "nan", "inf", "0x10",
                           "1e30", "99999999999T", " 8"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes.ok()) << "'" << text << "' gave " << *bytes;
    EXPECT_THAT(bytes.status().text(), HasSubstr(text));
  }
}

TEST(Sweep, Multiplies) {
  EXPECT_THAT(*sweep({.min_bytes = 8, .max_bytes = 64, .factor = 2}), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(*sweep({.min_bytes = 3, .max_bytes = 100, .factor = 4}), ElementsAre(3, 12, 48));
}

TEST(Sweep, Adds) {
  EXPECT_THAT(*sweep({.min_bytes = 0, .max_bytes = 25, .step_bytes = 10}), ElementsAre(0, 10, 20));
}

TEST(Sweep, OneSizeNeedsNoStep) {
  EXPECT_THAT(*sweep({.min_bytes = 0, .max_bytes = 0, .step_bytes = 0, .factor = 2}), ElementsAre(0));
  EXPECT_THAT(*sweep({.min_bytes = 7, .max_bytes = 7, .step_bytes = 0}), ElementsAre(7));
}

TEST(Sweep, EndsWithoutOverflow) {
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  EXPECT_THAT(*sweep({.min_bytes = kHuge - 1, .max_bytes = kHuge, .step_bytes = 3}), ElementsAre(kHuge - 1));
  EXPECT_THAT(*sweep({.min_bytes = kHuge / 2, .max_bytes = kHuge, .factor = 3}), ElementsAre(kHuge / 2));
}

TEST(Sweep, RefusesWhatNeverEnds) {
  EXPECT_FALSE(sweep({.min_bytes = 9, .max_bytes = 8}).ok());
  EXPECT_FALSE(sweep({.min_bytes = 0, .max_bytes = 8, .factor = 2}).ok());
  EXPECT_FALSE(sweep({.min_bytes = 0, .max_bytes = 8, .step_bytes = 0}).ok());
  EXPECT_FALSE(sweep({.min_bytes = 0, .max_bytes = std::uint64_t{1} << 40, .step_bytes = 1}).ok());
}

}  // namespace
}  // namespace ferrule::bench
