#include "base/secret_key.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/settings.hpp"

namespace ferrule {
namespace {

TEST(RandomBytes, AreAsManyAsAskedForAndNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const auto bytes = random_bytes(16);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(bytes->size(), 16u);
    EXPECT_TRUE(seen.insert(*bytes).second);
  }
  const std::string many = random_bytes(1000).value();
  ASSERT_EQ(many.size(), 1000u);
  EXPECT_NE(many.substr(900), std::string(100, '\0'));  // the last part of several is filled, too
  EXPECT_EQ(random_bytes(0).value(), "");
}

TEST(SecretKey, WithoutLibsodiumThereIsNone) {
  if (!SecretKey::library().empty()) GTEST_SKIP() << "this build has " << SecretKey::library();
  const auto key = SecretKey::from_text("a secret of more than sixteen");
  ASSERT_EQ(key.status().code(), ErrorCode::unsupported);
  EXPECT_NE(key.status().text().find("install libsodium-dev"), std::string::npos);
}

class SecretKeys : public testing::Test {
 protected:
  void SetUp() override {
    if (SecretKey::library().empty()) GTEST_SKIP() << "this build has no libsodium";
  }
  static SecretKey key(std::string_view text) { return SecretKey::from_text(text).value(); }
};

TEST_F(SecretKeys, TheSameSecretGivesTheSameTags) {
  const std::string tag = key("secret").tag("test", {"a", "b"});
  EXPECT_EQ(tag.size(), SecretKey::kTagBytes);
  EXPECT_EQ(tag, key("secret").tag("test", {"a", "b"}));
  EXPECT_TRUE(key("secret").accepts(tag, "test", {"a", "b"}));
}

TEST_F(SecretKeys, AnythingElseGivesOtherTags) {
  const SecretKey one = key("secret");
  std::set<std::string> tags;
  for (const SecretKey& each : {one, key("Secret"), key("secret\n"), one.derive("test", {}),
                                one.derive("test", {"a"}), one.derive("other", {"a"})}) {
    EXPECT_TRUE(tags.insert(each.tag("test", {"a", "b"})).second);
  }
  EXPECT_TRUE(tags.insert(one.tag("tes", {"ta", "b"})).second);
  EXPECT_TRUE(tags.insert(one.tag("test", {"ab", ""})).second);
  EXPECT_TRUE(tags.insert(one.tag("test", {"ab"})).second);
  EXPECT_TRUE(tags.insert(one.tag("test", {"", "ab"})).second);
}

TEST_F(SecretKeys, EveryBitOfATagCounts) {
  const SecretKey one = key("secret");
  const std::string tag = one.tag("test", {"text"});
  for (std::size_t bit = 0; bit < 8 * tag.size(); ++bit) {
    std::string changed = tag;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(one.accepts(changed, "test", {"text"})) << bit;
  }
  EXPECT_FALSE(one.accepts("", "test", {"text"}));
  EXPECT_FALSE(one.accepts(tag.substr(1), "test", {"text"}));
  EXPECT_FALSE(one.accepts(tag + tag, "test", {"text"}));
}

TEST(SecretSettings, AreNeverShown) {
  const auto settings =
      Settings::from({{"FERRULE_JOB_SECRET", "never to be seen"}, {"FERRULE_ALGO", "ring"}});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->text("FERRULE_JOB_SECRET"), "never to be seen");
  EXPECT_EQ(settings->describe().find("never"), std::string::npos) << settings->describe();
  EXPECT_NE(settings->describe().find("FERRULE_JOB_SECRET=(set)"), std::string::npos);
}

}  // namespace
}  // namespace ferrule
