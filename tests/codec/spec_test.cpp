// Codec texts: what is accepted, what it becomes, and what the errors say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "codec/codec.hpp"

namespace ferrule::codec {
namespace {

using ::testing::HasSubstr;

std::string canonical(const std::string& text) {
  const auto codec = make_codec(text);
  return codec ? (*codec)->spec() : codec.status().text();
}

TEST(Spec, DefaultsAreSpelledOut) {
  EXPECT_EQ(canonical("int4"), "int4:block=128");
  EXPECT_EQ(canonical("int4:round=nearest,block=64"), "int4:block=64");
  EXPECT_EQ(canonical("int2:round=stochastic"), "int2:block=128,round=stochastic");
  EXPECT_EQ(canonical("fp16"), "fp16:block=128");
  EXPECT_EQ(canonical("bf16"), "bf16");
  EXPECT_EQ(canonical("topk"), "topk:k=16,block=1024,value=bf16");
  EXPECT_EQ(canonical("topk:block=256"), "topk:k=4,block=256,value=bf16");
  EXPECT_EQ(canonical("topk:value=int8,ratio=0.01,block=4096"), "topk:k=41,block=4096,value=int8");
  EXPECT_EQ(canonical("topk:ratio=1e-9"), "topk:k=1,block=1024,value=bf16");
  EXPECT_EQ(canonical("topk:ratio=0.5,block=256"), "topk:k=128,block=256,value=bf16");
}

TEST(Spec, ErrorsNameTheBadWordAndWhatIsAllowed) {
  const auto expect_error = [](const std::string& text, const std::vector<std::string>& words) {
    const auto codec = make_codec(text);
    ASSERT_FALSE(codec.ok()) << text;
    EXPECT_EQ(codec.status().code(), ErrorCode::invalid_argument);
    for (const std::string& word : words) EXPECT_THAT(codec.status().text(), HasSubstr(word)) << text;
  };
  expect_error("int9", {"'int9'", "int2", "int8", "bf16"});
  expect_error("int1", {"'int1'", "int2"});
  expect_error("int4:block=100", {"'100'", "multiple of 32", "1024"});
  expect_error("int4:block=0", {"'0'", "multiple of 32"});
  expect_error("int4:block=2048", {"'2048'", "1024"});
  expect_error("int4:block=12x", {"'12x'", "multiple of 32"});
  expect_error("fp16:block=99999999999999999999999", {"99999999999999999999999"});
  expect_error("int4:blok=64", {"'blok'", "block, round"});
  expect_error("int4:round=up", {"'up'", "nearest", "stochastic"});
  expect_error("fp16:round=nearest", {"'round'", "block"});
  expect_error("bf16:block=64", {"'block'", "none"});
  expect_error("topk:block=128", {"'128'", "power of two", "256", "4096"});
  expect_error("topk:block=768", {"'768'", "power of two"});
  expect_error("topk:k=0", {"'0'", "1 to 512"});
  expect_error("topk:k=129,block=256", {"'129'", "1 to 128"});
  expect_error("topk:k=16,ratio=0.1", {"k and ratio"});
  expect_error("topk:ratio=0.6", {"'0.6'", "0.5"});
  expect_error("topk:ratio=nan", {"'nan'", "0.5"});
  expect_error("topk:ratio=1/64", {"'1'", "0.015625"});
  expect_error("topk:value=fp16", {"'fp16'", "bf16", "int8"});
  expect_error("topk:keep=3", {"'keep'", "k, ratio, block, value"});
  expect_error("", {"name"});
  expect_error("INT4", {"lower-case"});
  expect_error("int4:block", {"'block'", "'='"});
}

TEST(Spec, NamesAreUniqueAndMakeCodecs) {
  const std::vector<std::string> names = codec_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_GE(names.size(), 11u);
  for (const std::string& name : names) EXPECT_TRUE(make_codec(name).ok()) << name;
}

TEST(Spec, LossyCodecsTakeFloatSumsOnly) {
  const auto codec = make_codec("int4");
  ASSERT_TRUE(codec.ok());
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    EXPECT_TRUE((*codec)->supports(dtype, ReduceOp::sum));
    EXPECT_TRUE((*codec)->supports(dtype, ReduceOp::avg));
    EXPECT_FALSE((*codec)->supports(dtype, ReduceOp::max));
  }
  EXPECT_FALSE((*codec)->supports(DType::f64, ReduceOp::sum));
  EXPECT_FALSE((*codec)->supports(DType::i32, ReduceOp::sum));
}

TEST(Spec, NoiseKeysDiffer) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t a = 0; a < 6; ++a) {
    for (std::uint64_t b = 0; b < 6; ++b) {
      for (std::uint64_t c = 0; c < 6; ++c) {
        for (std::uint64_t d = 0; d < 6; ++d) keys.insert(noise_key(a, b, c, d));
      }
    }
  }
  EXPECT_EQ(keys.size(), 6u * 6 * 6 * 6);
}

}  // namespace
}  // namespace ferrule::codec
