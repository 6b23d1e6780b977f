// Finding NCCL: which file, which version, and what is said where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/nccl/nccl_library.hpp"

namespace ferrule::transport::nccl {
namespace {

using ::testing::HasSubstr;

TEST(NcclLibrary, VersionsReadAsPeopleWriteThem) {
  EXPECT_EQ(version_text(22809), "2.28.9");
  EXPECT_EQ(version_text(21400), "2.14.0");
  EXPECT_EQ(version_text(2804), "2.8.4");
}

TEST(NcclLibrary, AnAcceptableOneIsTaken) {
  auto found = load({"/nowhere/libnccl.so.2", FAKE_NCCL_NEW});
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->version, 22809);
  EXPECT_EQ(found->where, FAKE_NCCL_NEW);
  EXPECT_STREQ(found->api.get_error_string(Code::success), "fake");
}

TEST(NcclLibrary, OneThatIsTooOldSaysSo) {
  auto found = load({FAKE_NCCL_OLD});
  EXPECT_EQ(found.status().code(), ErrorCode::unsupported);
  EXPECT_THAT(found.status().text(), HasSubstr("is NCCL 2.10.3; 2.14.0 or newer is needed"));
}

TEST(NcclLibrary, WithoutOneTheErrorSaysWhatWasTriedAndWhatToDo) {
  auto found = load({"/nowhere/libnccl.so.2", "libm.so.6"});
  EXPECT_EQ(found.status().code(), ErrorCode::unsupported);
  EXPECT_THAT(found.status().text(), HasSubstr("/nowhere/libnccl.so.2"));
  EXPECT_THAT(found.status().text(), HasSubstr("libm.so.6 is no NCCL"));
  EXPECT_THAT(found.status().text(), HasSubstr("FERRULE_NCCL_LIBRARY"));
}

TEST(NcclLibrary, ARealOneHasAllThatIsCalled) {
  auto found = load(candidates(""));
  if (!found.ok()) GTEST_SKIP() << found.status().text();
  EXPECT_GE(found->version, kLeastVersion) << found->where;
  EXPECT_STREQ(found->api.get_error_string(Code::success), "no error") << found->where;
}

TEST(NcclLibrary, ANamedFileIsTheOnlyCandidate) {
  EXPECT_EQ(candidates("/my/nccl.so"), std::vector<std::string>{"/my/nccl.so"});
  EXPECT_EQ(candidates("").front(), "libnccl.so.2");
}

}  // namespace
}  // namespace ferrule::transport::nccl
