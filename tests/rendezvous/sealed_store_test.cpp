#include "rendezvous/sealed_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/memory_store.hpp"

namespace ferrule::rendezvous {
namespace {

using testing::HasSubstr;

class SealedStores : public testing::Test {
 protected:
  void SetUp() override {
    if (SecretKey::library().empty()) GTEST_SKIP() << "this build has no libsodium";
  }
  static SecretKey key(std::string_view text) { return SecretKey::from_text(text).value(); }
  Result<std::string> get(Store& store, std::string_view name) const {
    return store.get(name, Deadline::after(std::chrono::seconds(5)));
  }
  void expect_mismatch(Store& store, std::string_view name, std::string_view why) const {
    const auto value = get(store, name);
    EXPECT_EQ(value.status().code(), ErrorCode::mismatch) << name;
    EXPECT_THAT(value.status().text(),
                testing::AllOf(HasSubstr(why), HasSubstr(name), HasSubstr("set FERRULE_JOB_SECRET")));
  }

  std::shared_ptr<MemoryStore> raw_ = std::make_shared<MemoryStore>();
};

TEST_F(SealedStores, ValuesComeBackAsTheyWere) {
  SealedStore one(raw_, key("secret")), other(raw_, key("secret"));
  const std::string largest(Store::kMaxValueBytes - SealedStore::kSealBytes, 'x');
  for (const std::string& value : {std::string(), std::string("\0\xff", 2), largest}) {
    const std::string name = "k" + std::to_string(value.size());
    ASSERT_TRUE(one.set(name, value).ok());
    EXPECT_EQ(get(other, name).value(), value);
    EXPECT_EQ(raw_->find(name)->size(), value.size() + SealedStore::kSealBytes);
  }
}

TEST_F(SealedStores, ValuesOfOthersAreRefused) {
  SealedStore ours(raw_, key("secret"));
  SealedStore theirs(raw_, key("another"));
  ASSERT_TRUE(theirs.set("theirs", "value").ok());
  ASSERT_TRUE(raw_->set("plain", "value").ok());
  ASSERT_TRUE(raw_->set("empty", "").ok());
  ASSERT_TRUE(ours.set("ours", "value").ok());
  ASSERT_TRUE(raw_->set("moved", *raw_->find("ours")).ok());
  ASSERT_TRUE(raw_->set("cut", raw_->find("ours")->substr(0, SealedStore::kSealBytes - 1)).ok());
  for (std::size_t at = 0; at < raw_->find("ours")->size(); ++at) {
    std::string changed = *raw_->find("ours");
    changed[at] = static_cast<char>(changed[at] ^ 4);
    ASSERT_TRUE(raw_->set("changed" + std::to_string(at), changed).ok());
    EXPECT_EQ(get(ours, "changed" + std::to_string(at)).status().code(), ErrorCode::mismatch) << at;
  }
  expect_mismatch(ours, "theirs", "another job secret");
  expect_mismatch(ours, "moved", "another job secret");
  for (const char* name : {"plain", "empty", "cut"}) expect_mismatch(ours, name, "without the job's secret");
  EXPECT_EQ(get(ours, "ours").value(), "value");
}

TEST_F(SealedStores, WithoutASecretOnlySealedValuesAreRefused) {
  SealedStore open(raw_, std::nullopt);
  SealedStore sealed(raw_, key("secret"));
  ASSERT_TRUE(open.set("open", "value").ok());
  ASSERT_TRUE(sealed.set("sealed", "value").ok());
  EXPECT_EQ(*raw_->find("open"), "value");
  EXPECT_EQ(get(open, "open").value(), "value");
  expect_mismatch(open, "sealed", "this rank has none");
}

}  // namespace
}  // namespace ferrule::rendezvous
