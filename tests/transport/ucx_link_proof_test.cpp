// Who connects must be the rank that it says, where ranks have a key.
#include <gmock/gmock.h>

#include "base/secret_key.hpp"
#include "transport/ranks.hpp"
#include "transport/ucx/link_message.hpp"

namespace ferrule::transport::testing {
namespace {

using ucx::LinkEvent;
using ucx::LinkMessage;

class UcxLinkProof : public ::testing::Test {
 protected:
  void SetUp() override {
    if (SecretKey::library().empty()) GTEST_SKIP() << "this build has no libsodium";
  }
  static SecretKey key(std::string_view text) { return SecretKey::from_text(text).value(); }

  /// Connects two ranks with these keys; what each of them got.
  static std::vector<Status> connect(const std::optional<SecretKey>& zero,
                                     const std::optional<SecretKey>& one, std::chrono::milliseconds time) {
    constexpr std::int32_t kSize = 2;
    Board board(kSize);
    const std::uint64_t communicator = new_communicator();
    std::vector<Status> results(kSize);
    std::vector<std::thread> threads;
    for (std::int32_t rank = 0; rank < kSize; ++rank) {
      threads.emplace_back([&, rank] {
        Membership mine = membership(rank, kSize, communicator);
        mine.link_key = rank == 0 ? zero : one;
        const auto made = find_transport("ucx")->connect(mine, board.exchange(rank), Deadline::after(time));
        (void)board.exchange(rank)("connected", "");  // nobody leaves early
        results[static_cast<std::size_t>(rank)] = made.status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }
};

TEST_F(UcxLinkProof, RanksWithTheSameKeyConnect) {
  for (const Status& status : connect(key("secret"), key("secret"), std::chrono::seconds(20))) {
    EXPECT_TRUE(status.ok()) << status.text();
  }
}

TEST_F(UcxLinkProof, RanksWithoutItAreNotConnected) {
  for (const auto& other : {std::optional(key("another")), std::optional<SecretKey>()}) {
    const auto results = connect(key("secret"), other, std::chrono::milliseconds(500));
    EXPECT_EQ(results[0].code(), ErrorCode::timeout) << results[0].text();
    EXPECT_THAT(results[0].text(), ::testing::HasSubstr("could not connect to rank 1"));
  }
}

TEST_F(UcxLinkProof, CoversEachFieldAndBothEnds) {
  LinkMessage hello;
  hello.communicator = 7;
  hello.source = 2;
  hello.destination = 1;
  hello.prove(key("secret"));
  const std::optional<SecretKey> right = key("secret");
  EXPECT_TRUE(hello.is_proven(right, 1));
  EXPECT_FALSE(hello.is_proven(right, 0));  // sent on to somebody else
  EXPECT_FALSE(hello.is_proven(key("another"), 1));
  EXPECT_TRUE(hello.is_proven(std::nullopt, 0));  // without a key nothing is asked
  for (std::size_t at = 0; at < sizeof(LinkMessage); ++at) {
    LinkMessage changed = hello;
    reinterpret_cast<unsigned char*>(&changed)[at] ^= 1;
    EXPECT_FALSE(changed.is_proven(right, 1)) << at;
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(&hello);
  EXPECT_TRUE(LinkMessage::parse({bytes, sizeof(hello)}, 7, 3).has_value());
  EXPECT_FALSE(LinkMessage::parse({bytes, sizeof(hello)}, 8, 3).has_value());
  EXPECT_FALSE(LinkMessage::parse({bytes, sizeof(hello)}, 7, 2).has_value());
  EXPECT_FALSE(LinkMessage::parse({bytes, sizeof(hello) - 1}, 7, 3).has_value());
}

}  // namespace
}  // namespace ferrule::transport::testing
