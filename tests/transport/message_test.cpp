#include "transport/message.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace ferrule::transport {
namespace {

using Bytes = std::array<std::byte, MessageHeader::kBytes>;

MessageHeader sample() {
  MessageHeader header;
  header.kind = MessageKind::control;
  header.control_type = 0x0c;
  header.communicator = 0x1122334455667788u;
  header.source = 0x01020304;
  header.sequence = 0xfffffffeu;
  header.slice = 0x0a0b0c0du;
  header.ordinal = 3;
  header.chunk = 0x21222324u;
  header.plan = 0x99aabbccddeeff00u;
  header.payload_bytes = 64512;
  header.payload_checksum = 0xcafef00du;
  return header;
}

Bytes sealed(const MessageHeader& header) {
  Bytes bytes;
  bytes.fill(std::byte{0xee});  // seal must write every byte
  seal(header, bytes);
  return bytes;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<int>(byte) >> 4];
    text += kDigits[std::to_integer<int>(byte) & 15];
  }
  return text;
}

// The wire format, frozen: docs/wire_format.md explains each byte. A change needs a new version number.
TEST(Message, golden_bytes) {
  EXPECT_EQ(hex(sealed(sample())),
            "4652524c"          // magic "FRRL"
            "01"                // version
            "02"                // kind: control
            "0c"                // control type
            "00"                // reserved
            "8877665544332211"  // communicator
            "04030201"          // source
            "feffffff"          // sequence
            "0d0c0b0a"          // slice
            "03000000"          // ordinal
            "24232221"          // chunk
            "00fc0000"          // payload bytes
            "00ffeeddccbbaa99"  // plan
            "0df0feca"          // payload checksum
            "0000000000000000"  // reserved
            "2481a7f7");        // checksum: low half of XXH3-64 of the 60 bytes before
}

TEST(Message, opens_what_was_sealed) {
  const auto opened = open(sealed(sample()));
  ASSERT_TRUE(opened.ok()) << opened.status().text();
  EXPECT_EQ(opened->kind, MessageKind::control);
  EXPECT_EQ(opened->control_type, 0x0c);
  EXPECT_EQ(opened->communicator, 0x1122334455667788u);
  EXPECT_EQ(opened->source, 0x01020304);
  EXPECT_EQ(opened->sequence, 0xfffffffeu);
  EXPECT_EQ(opened->slice, 0x0a0b0c0du);
  EXPECT_EQ(opened->ordinal, 3u);
  EXPECT_EQ(opened->chunk, 0x21222324u);
  EXPECT_EQ(opened->plan, 0x99aabbccddeeff00u);
  EXPECT_EQ(opened->payload_bytes, 64512u);
  EXPECT_EQ(opened->payload_checksum, 0xcafef00du);
}

TEST(Message, negative_sources_survive_to_be_rejected_by_name) {
  MessageHeader header = sample();
  header.source = -5;
  const auto opened = open(sealed(header));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->source, -5);
}

void expect_error(std::span<const std::byte> bytes, ErrorCode code, const std::string& word) {
  const auto opened = open(bytes);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), code) << opened.status().text();
  EXPECT_NE(opened.status().text().find(word), std::string::npos) << opened.status().text();
}

// Makes the checksum right again after a change, as a hostile sender would.
void reseal(Bytes& bytes) {
  const std::uint32_t want = [&] {
    for (std::uint64_t guess = 0;; ++guess) {
      // The checksum of 60 bytes is what payload_checksum gives, except that 0 becomes 1.
      const std::uint32_t sum = payload_checksum(std::span(bytes).first(60));
      if (sum > 1) return sum;
      bytes[59] = static_cast<std::byte>(guess);
    }
  }();
  for (std::size_t i = 0; i < 4; ++i) bytes[60 + i] = static_cast<std::byte>(want >> (8 * i));
}

TEST(Message, each_check_says_what_was_wrong_and_shows_it) {
  const Bytes good = sealed(sample());
  expect_error({}, ErrorCode::corrupt, "0 bytes long, expected 64");
  expect_error(std::span(good).first(63), ErrorCode::corrupt, "63 bytes long");
  std::vector<std::byte> longer(good.begin(), good.end());
  longer.push_back({});
  expect_error(longer, ErrorCode::corrupt, "65 bytes long");

  Bytes bad = good;
  bad[0] = std::byte{'G'};
  expect_error(bad, ErrorCode::corrupt, "magic is 0x4c525247");
  bad = good;
  bad[4] = std::byte{9};
  expect_error(bad, ErrorCode::mismatch, "version 9, this rank speaks 1");
  bad = good;
  bad[60] ^= std::byte{1};
  expect_error(bad, ErrorCode::corrupt, "checksum");
  bad = good;
  bad[5] = std::byte{77};
  reseal(bad);
  expect_error(bad, ErrorCode::corrupt, "kind is 77");
  for (const std::size_t reserved : {std::size_t{7}, std::size_t{52}, std::size_t{59}}) {
    bad = good;
    bad[reserved] = std::byte{1};
    reseal(bad);
    expect_error(bad, ErrorCode::corrupt, "reserved");
  }
}

TEST(Message, every_single_bit_error_is_found) {
  const Bytes good = sealed(sample());
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_FALSE(open(bad).ok()) << "bit " << bit;
  }
}

TEST(Message, random_bytes_and_random_damage_never_pass) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes(random() % 100);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    EXPECT_FALSE(open(bytes).ok());
    Bytes damaged = sealed(sample());
    const Bytes before = damaged;
    for (std::uint64_t n = 1 + random() % 6; n > 0; --n) {
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    }
    if (damaged != before) {
      EXPECT_FALSE(open(damaged).ok()) << hex(damaged);
    }
  }
}

// Whatever passes means exactly what its bytes say: sealing it again gives the same bytes.
TEST(Message, what_passes_is_canonical) {
  std::mt19937 random(8);
  int passed = 0;
  for (int round = 0; round < 5000; ++round) {
    Bytes bytes = sealed(sample());
    for (std::uint64_t n = random() % 4; n > 0; --n) bytes[random() % 60] = static_cast<std::byte>(random());
    reseal(bytes);
    const auto opened = open(bytes);
    if (!opened.ok()) continue;
    ++passed;
    EXPECT_EQ(hex(sealed(opened.value())), hex(bytes));
  }
  EXPECT_GT(passed, 1000);
}

TEST(Message, payload_checksums_are_never_zero_and_see_every_bit) {
  EXPECT_NE(payload_checksum({}), 0u);
  std::vector<std::byte> payload(1000, std::byte{3});
  const std::uint32_t before = payload_checksum(payload);
  for (std::size_t bit = 0; bit < 8 * payload.size(); bit += 37) {
    payload[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_NE(payload_checksum(payload), before);
    payload[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
  EXPECT_EQ(payload_checksum(payload), before);
}

}  // namespace
}  // namespace ferrule::transport
