// The wire bytes of every codec are pinned by files in golden/. A change of the format must change the
// version in docs/wire_format.md too. To write the files anew: codec_golden_test --regenerate
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "codec/harness.hpp"

namespace ferrule::codec::testing {
namespace {

bool regenerate = false;

// Two full blocks and a partial one for the default block.
constexpr std::size_t kLength = 300;

std::filesystem::path golden_path(const std::string& spec, Values values) {
  std::string name = fmt::format("{}.{}", spec, values_name(values));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '=' || c == ','; }, '_');
  return std::filesystem::path(FERRULE_GOLDEN_DIR) / (name + ".bin");
}

std::vector<std::byte> encode_golden(const std::string& spec, Values values) {
  const auto codec = make_or_fail(spec);
  const Case at{DType::f32, kLength, values};
  EncodeOptions options;
  options.noise = {noise_key(1, 2, 3, 4), 0};
  const Input input{Term::Kind::plain, to_elements(make_values(values, kLength, 2024), DType::f32)};
  return run_encode(*codec, at, {input}, options).wire;
}

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void write_file(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::vector<std::string> golden_specs() {
  std::vector<std::string> specs = codec_names();
  for (const char* spec : {"int4:round=stochastic", "int8:round=stochastic", "int4:block=32",
                           "int4:block=1024", "topk:k=8,block=256", "topk:k=64,block=256,value=int8"}) {
    specs.emplace_back(spec);
  }
  return specs;
}

TEST(Golden, WireBytesAreThoseOfTheFiles) {
  for (const std::string& spec : golden_specs()) {
    for (const Values values : {Values::normal, Values::with_nan}) {
      const std::filesystem::path path = golden_path(spec, values);
      const std::vector<std::byte> bytes = encode_golden(spec, values);
      if (regenerate) write_file(path, bytes);
      ASSERT_TRUE(std::filesystem::exists(path)) << path << " is missing: run with --regenerate";
      EXPECT_EQ(read_file(path), bytes) << spec << ": the wire format has changed (" << path << ")";
    }
  }
}

// The example of docs/wire_format.md.
TEST(Golden, WorkedExample) {
  const auto codec = make_or_fail("int4:block=32");
  std::vector<float> x(34);
  for (std::size_t i = 0; i < 32; ++i) x[i] = static_cast<float>(static_cast<int>(i % 15) - 7);
  x[32] = 0.5f;
  x[33] = -3.5f;
  const Case at{DType::f32, x.size()};
  const auto wire = run_encode(*codec, at, {{Term::Kind::plain, to_elements(x, DType::f32)}}).wire;
  const std::vector<unsigned> expected = {0x80, 0x3f, 0x00, 0x3f,  // scales 1.0, 0.5
                                          0xd9, 0x51, 0xea, 0x62, 0xea, 0x62, 0xfb, 0x73,
                                          0xfb, 0x73, 0x0c, 0x94, 0x0c, 0x94, 0x1d, 0xa5,  // words
                                          0x91};
  ASSERT_EQ(wire.size(), expected.size());
  for (std::size_t i = 0; i < wire.size(); ++i) {
    EXPECT_EQ(static_cast<unsigned>(wire[i]), expected[i]) << "byte " << i;
  }
}

}  // namespace
}  // namespace ferrule::codec::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ferrule::codec::testing::regenerate = argc > 1 && std::string_view(argv[1]) == "--regenerate";
  return RUN_ALL_TESTS();
}
