// Block top-k, from a peer that writes what it likes: positions that repeat, descend or lie outside make the
// block NaN, and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codec/format/block_topk.hpp"
#include "codec/harness.hpp"

namespace ferrule::codec::testing {
namespace {

constexpr std::size_t kBlock = 256;
constexpr std::size_t kLength = 3 * kBlock + 100;

/// The bytes of an honest encode, of which one block is then changed.
class Forged {
 public:
  explicit Forged(const char* spec) : codec_(make_or_fail(spec)) {
    const Input input{Term::Kind::plain, to_elements(make_values(Values::normal, kLength, 4), DType::f32)};
    wire_ = run_encode(*codec_, at_, {input}).wire;
    before_ = decode();
  }
  std::byte* payload(std::size_t block) {
    const std::size_t blocks = (kLength + kBlock - 1) / kBlock;
    const std::size_t headers = codec_->encoded_bytes(1, DType::f32) - kOneValue;
    const std::size_t full = codec_->encoded_bytes(kBlock, DType::f32) - headers;
    return wire_.data() + blocks * headers + block * full;
  }
  std::vector<float> decode() {
    const Decoded decoded = run_decode(*codec_, at_, {{Term::Kind::encoded, wire_}});
    finite_ = decoded.finite;
    return to_floats(decoded.elements, DType::f32);
  }
  /// That block, and only that, is NaN throughout.
  void expect_spoilt(std::size_t block) {
    const std::vector<float> y = decode();
    EXPECT_FALSE(finite_);
    for (std::size_t i = 0; i < kLength; ++i) {
      if (i / kBlock == block) {
        ASSERT_TRUE(std::isnan(y[i])) << i;
      } else {
        ASSERT_EQ(y[i], before_[i]) << i;
      }
    }
  }
  void expect_good() {
    decode();
    EXPECT_TRUE(finite_);
  }

 private:
  static constexpr std::size_t kOneValue = 2;  // bf16
  std::unique_ptr<const Codec> codec_;
  Case at_{DType::f32, kLength};
  std::vector<std::byte> wire_;
  std::vector<float> before_;
  bool finite_ = true;
};

void set_positions(std::byte* payload, std::initializer_list<unsigned> positions) {
  for (const unsigned position : positions) *payload++ = static_cast<std::byte>(position);
}

TEST(TopKHostile, PositionsThatDoNotAscendSpoilTheirBlock) {
  for (const auto& positions :
       {std::initializer_list<unsigned>{9, 9, 10, 11}, {1, 2, 0, 3}, {5, 7, 7, 255}}) {
    Forged forged("topk:k=4,block=256");
    set_positions(forged.payload(1), positions);
    forged.expect_spoilt(1);
  }
  Forged forged("topk:k=4,block=256");
  set_positions(forged.payload(1), {0, 1, 254, 255});
  forged.expect_good();
}

// The last block has 100 elements: 2 of them, in 7 bits each.
TEST(TopKHostile, PositionsOutsideTheLastBlockSpoilIt) {
  Forged forged("topk:k=4,block=256");
  format::store_u16(forged.payload(3), 3U | (99U << 7));
  forged.expect_good();
  format::store_u16(forged.payload(3), 3U | (100U << 7));
  forged.expect_spoilt(3);
  format::store_u16(forged.payload(3), 3U | (99U << 7) | 0xc000U);  // bits that belong to no number
  forged.expect_good();
}

TEST(TopKHostile, ABitmapWithAnotherNumberOfBitsSpoilsItsBlock) {
  Forged more("topk:k=64,block=256");
  std::byte* bits = more.payload(2);
  std::byte* hole = std::find_if(bits, bits + 32, [](std::byte b) { return b != std::byte{0xff}; });
  *hole |= static_cast<std::byte>(static_cast<unsigned>(*hole) + 1U);
  more.expect_spoilt(2);
  Forged fewer("topk:k=64,block=256");
  bits = fewer.payload(2);
  std::byte* set = std::find_if(bits, bits + 32, [](std::byte b) { return b != std::byte{0}; });
  *set &= static_cast<std::byte>(static_cast<unsigned>(*set) - 1U);
  fewer.expect_spoilt(2);
}

// The last block: 100 elements in 13 bytes, of which four bits are nobody's.
TEST(TopKHostile, ABitmapWithABitBehindTheEndSpoilsItsBlock) {
  Forged forged("topk:k=64,block=256");
  std::byte* bits = forged.payload(3);
  std::byte* set = std::find_if(bits, bits + 12, [](std::byte b) { return b != std::byte{0}; });
  *set &= static_cast<std::byte>(static_cast<unsigned>(*set) - 1U);
  bits[12] |= std::byte{0x80};
  forged.expect_spoilt(3);
}

TEST(TopKHostile, OneValueThatIsNoNumberSpoilsItsBlock) {
  for (const unsigned value : {0x7fc0U, 0xff80U, 0x7f80U, 0x7f81U}) {
    Forged forged("topk:k=4,block=256");
    format::store_u16(forged.payload(2) + 4 + 2 * 3, value);
    forged.expect_spoilt(2);
  }
}

}  // namespace
}  // namespace ferrule::codec::testing
