#include "base/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "base/text_values.hpp"

namespace ferrule {
namespace {

using std::chrono::nanoseconds;
using testing::HasSubstr;

TEST(TextValues, Flags) {
  for (const char* yes : {"1", "yes", "True", "ON"}) EXPECT_TRUE(parse_flag(yes).value()) << yes;
  for (const char* no : {"0", "no", "False", "OFF"}) EXPECT_FALSE(parse_flag(no).value()) << no;
  for (const char* bad : {"", "2", "y", "yes ", "enable"}) EXPECT_FALSE(parse_flag(bad).ok()) << bad;
}

TEST(TextValues, Counts) {
  EXPECT_EQ(parse_count("0").value(), 0u);
  EXPECT_EQ(parse_count("18446744073709551615").value(), ~std::uint64_t{0});
  for (const char* bad : {"", "-1", "+1", "1.5", "0x10", "1 ", "18446744073709551616", "four"}) {
    EXPECT_FALSE(parse_count(bad).ok()) << bad;
  }
}

TEST(TextValues, Bytes) {
  EXPECT_EQ(parse_bytes("64512").value(), 64512u);
  EXPECT_EQ(parse_bytes("64K").value(), 65536u);
  EXPECT_EQ(parse_bytes("64kb").value(), 65536u);
  EXPECT_EQ(parse_bytes("1.5MiB").value(), 1536u * 1024);
  EXPECT_EQ(parse_bytes("2G").value(), std::uint64_t{2} << 30);
  EXPECT_EQ(parse_bytes("18446744073709551615").value(), ~std::uint64_t{0});
  for (const char* bad :
       {"", "K", "-1K", "1.0001K", "64Q", "64 K", "1e3", "1..5K", "99999999999T", "nan", "inf"}) {
    EXPECT_FALSE(parse_bytes(bad).ok()) << bad;
  }
}

TEST(TextValues, Durations) {
  EXPECT_EQ(parse_duration("30s").value(), std::chrono::seconds(30));
  EXPECT_EQ(parse_duration("30").value(), std::chrono::seconds(30));
  EXPECT_EQ(parse_duration("500ms").value(), std::chrono::milliseconds(500));
  EXPECT_EQ(parse_duration("1.5h").value(), std::chrono::minutes(90));
  EXPECT_EQ(parse_duration("2m").value(), std::chrono::minutes(2));
  EXPECT_EQ(parse_duration("20us").value(), std::chrono::microseconds(20));
  EXPECT_EQ(parse_duration("100ns").value(), nanoseconds(100));
  EXPECT_EQ(parse_duration("0").value(), nanoseconds(0));
  for (const char* bad : {"", "s", "-1s", "30 s", "30sec", "1e9s", "999999999999h", "1d"}) {
    EXPECT_FALSE(parse_duration(bad).ok()) << bad;
  }
}

TEST(Settings, DefaultsOfTheTableAreValid) {
  const auto settings = Settings::from({});
  ASSERT_TRUE(settings.ok()) << settings.status().text();
  EXPECT_EQ(settings->text("FERRULE_CODEC"), "none");
  EXPECT_EQ(settings->text("FERRULE_DEBUG"), "WARN");
  EXPECT_EQ(settings->duration("FERRULE_TIMEOUT"), std::chrono::seconds(60));
  EXPECT_EQ(settings->bytes("FERRULE_MIN_BYTES"), 16384u);
  EXPECT_EQ(settings->count("FERRULE_SLICES_IN_FLIGHT"), 0u);
  EXPECT_FALSE(settings->flag("FERRULE_DISABLE"));
  EXPECT_EQ(settings->describe(), "");
}

TEST(Settings, GivenValuesReplaceDefaultsAndEmptyOnesDoNot) {
  const auto settings = Settings::from({{"FERRULE_CODEC", "int4:block=128"},
                                        {"FERRULE_SLICE", "64K"},
                                        {"FERRULE_TIMEOUT", ""},
                                        {"FERRULE_DEBUG", "trace"}});
  ASSERT_TRUE(settings.ok()) << settings.status().text();
  EXPECT_EQ(settings->text("FERRULE_CODEC"), "int4:block=128");
  EXPECT_EQ(settings->bytes("FERRULE_SLICE"), 65536u);
  EXPECT_EQ(settings->duration("FERRULE_TIMEOUT"), std::chrono::seconds(60));
  EXPECT_EQ(settings->text("FERRULE_DEBUG"), "TRACE");
  EXPECT_EQ(settings->describe(), "FERRULE_DEBUG=trace FERRULE_CODEC=int4:block=128 FERRULE_SLICE=64K");
}

TEST(Settings, ErrorsNameVariableValueAndWhatIsAllowed) {
  struct Case {
    const char *name, *value, *allowed;
  };
  for (const auto& [name, value, allowed] :
       {Case{"FERRULE_TIMEOUT", "soon", "30s or 500ms"}, Case{"FERRULE_TIMEOUT", "0s", "more than 0"},
        Case{"FERRULE_SLICE", "64Q", "e.g. 64K"}, Case{"FERRULE_SLICES_IN_FLIGHT", "-1", "whole number"},
        Case{"FERRULE_CHECKSUM", "maybe", "1 or 0"}}) {
    const auto settings = Settings::from({{name, value}});
    ASSERT_EQ(settings.status().code(), ErrorCode::invalid_argument) << name;
    EXPECT_THAT(settings.status().text(),
                testing::AllOf(HasSubstr(name), HasSubstr(value), HasSubstr(allowed)));
  }
}

TEST(Settings, ABadLogLevelDoesNotStopAJob) {
  EXPECT_EQ(Settings::from({{"FERRULE_DEBUG", "loud"}})->text("FERRULE_DEBUG"), "WARN");
}

TEST(Settings, UnknownNamesAreFoundWithTheNearestKnownOne) {
  const auto unknown = settings::unknown_names({{"FERRULE_TIMOUT", "1"},
                                                {"FERRULE_CODEC", "x"},
                                                {"FERRULE_", ""},
                                                {"FERRULE_QUITE_ANOTHER", ""},
                                                {"OTHER", ""},
                                                {"FERRULE_SOCKET_IFNAMES", ""}});
  const std::map<std::string, std::string> found(unknown.begin(), unknown.end());
  EXPECT_EQ(found.size(), 4u);
  EXPECT_EQ(found.at("FERRULE_TIMOUT"), "FERRULE_TIMEOUT");
  EXPECT_EQ(found.at("FERRULE_SOCKET_IFNAMES"), "FERRULE_SOCKET_IFNAME");
  EXPECT_EQ(found.at("FERRULE_QUITE_ANOTHER"), "");
}

TEST(Settings, OneAtATime) {
  ::setenv("FERRULE_UCX_TLS", "tcp", 1);
  ::setenv("FERRULE_SLICE", "1K", 1);
  ::setenv("FERRULE_STALL_WARN", "x", 1);
  EXPECT_EQ(settings::text("FERRULE_UCX_TLS"), "tcp");
  EXPECT_EQ(settings::text("FERRULE_ALGO"), "auto");
  EXPECT_EQ(settings::bytes("FERRULE_SLICE").value(), 1024u);
  EXPECT_THAT(settings::duration("FERRULE_STALL_WARN").status().text(), HasSubstr("FERRULE_STALL_WARN='x'"));
  for (const char* name : {"FERRULE_UCX_TLS", "FERRULE_SLICE", "FERRULE_STALL_WARN"}) ::unsetenv(name);
}

TEST(Settings, ManyThreadsMayRead) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(Settings::from_environment().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Settings, NamesStandOnceAndThePageHasThemAll) {
  const std::string page = settings::markdown();
  std::set<std::string_view> names;
  for (const SettingRow& row : kSettingRows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(row.name.starts_with("FERRULE_")) << row.name;
    EXPECT_FALSE(row.meaning.empty()) << row.name;
    EXPECT_THAT(page, HasSubstr("| `" + std::string(row.name) + "` |"));
  }
}

}  // namespace
}  // namespace ferrule
