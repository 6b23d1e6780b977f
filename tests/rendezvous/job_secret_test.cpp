#include "rendezvous/job_secret.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace ferrule::rendezvous {
namespace {

using testing::HasSubstr;

constexpr char kText[] = "0123456789abcdef";

class JobSecret : public testing::Test {
 protected:
  JobSecret() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ferrule-secret-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~JobSecret() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_ + "/secret" + std::to_string(files_++);
    std::ofstream(path, std::ios::binary) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  static void expect_bad(const Result<std::optional<SecretKey>>& secret, const std::string& text) {
    EXPECT_EQ(secret.status().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(secret.status().text(), HasSubstr(text));
    EXPECT_THAT(secret.status().text(), HasSubstr("FERRULE_JOB_SECRET"));
    EXPECT_THAT(secret.status().text(), testing::Not(HasSubstr(kText)));
  }

  std::string folder_;
  int files_ = 0;
};

TEST_F(JobSecret, NoneIsNoError) {
  const auto none = job_secret("", "");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

TEST_F(JobSecret, ABuildWithoutLibsodiumRefusesOne) {
  if (!SecretKey::library().empty()) GTEST_SKIP() << "this build has " << SecretKey::library();
  const auto secret = job_secret(kText, "");
  EXPECT_EQ(secret.status().code(), ErrorCode::unsupported);
  EXPECT_THAT(secret.status().text(), HasSubstr("FERRULE_JOB_SECRET is set, but this build"));
}

TEST_F(JobSecret, TextAndFileGiveTheSameKey) {
  if (SecretKey::library().empty()) GTEST_SKIP() << "this build has no libsodium";
  const std::string tag = job_secret(kText, "").value()->tag("test", {});
  for (const char* end : {"", "\n", "\r\n"}) {
    const auto secret = job_secret("", write(std::string(kText) + end));
    ASSERT_TRUE(secret.ok()) << secret.status().text();
    EXPECT_EQ(secret.value()->tag("test", {}), tag);
  }
  EXPECT_NE(job_secret(std::string(kText) + "g", "").value()->tag("test", {}), tag);
  EXPECT_TRUE(
      job_secret("", write(kText, 0440)).ok());  // the group may read it: mounted secrets are like that
  EXPECT_TRUE(job_secret("", write(std::string(kMaxSecretBytes, 's') + "\n")).ok());
}

TEST_F(JobSecret, FilesThatOthersMayReadOrChangeAreRefused) {
  for (const mode_t mode : {0644, 0604, 0602, 0620, 0601}) {
    expect_bad(job_secret("", write(kText, mode)), "chmod 600");
  }
  expect_bad(job_secret("", write(kText, 0644)), "has mode 0644: everybody may read it");
  expect_bad(job_secret("", write(kText, 0620)), "others may change it");
}

TEST_F(JobSecret, WhatIsNoFileIsRefusedAtOnce) {
  expect_bad(job_secret("", folder_ + "/nothing"), "No such file");
  expect_bad(job_secret("", folder_), "is not a file");
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_bad(job_secret("", pipe), "is not a file");
}

TEST_F(JobSecret, ShortAndEndlessOnesAreRefused) {
  expect_bad(job_secret("0123456789abcde", ""), "has 15 bytes, it must have 16");
  expect_bad(job_secret("", write("\n")), "has 0 bytes");
  expect_bad(job_secret("", write(std::string(100'000, 's'))), "it must have 16 to 4096");
  expect_bad(job_secret(kText, write(kText)), "both set");
}

}  // namespace
}  // namespace ferrule::rendezvous
