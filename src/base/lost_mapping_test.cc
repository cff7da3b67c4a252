#include "base/lost_mapping.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "base/file.h"

namespace winnow {
namespace {

class LostMappingTest : public testing::Test {
 protected:
  LostMappingTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    std::filesystem::create_directories(path_.parent_path());
    EXPECT_TRUE(WriteFile(path_, std::string(3 * 4096 + 5, 'w')).ok());
  }
  ~LostMappingTest() override {
    std::filesystem::remove_all(path_.parent_path());
  }

  // What is at `index` of the file, mapped, after it is as long as `left`.
  static int ReadBehindEnd(const MappedFile& file, size_t left, size_t index) {
    std::filesystem::resize_file(file.path(), left);
    const volatile std::byte* bytes = file.bytes().data();
    return static_cast<int>(bytes[index]);
  }

  // Of this test alone: others run beside it.
  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      testing::UnitTest::GetInstance()->current_test_info()->name() /
      "a lost\nmapping";
};

TEST_F(LostMappingTest, AFileThatIsCutOffIsNamed) {
  EXPECT_EXIT(
      {
        EndWhereMappingsAreLost("program: ", 7);
        const Result<MappedFile> file = MappedFile::Open(path_);
        ReadBehindEnd(*file, 0, 3 * 4096 + 4);
      },
      testing::ExitedWithCode(7),
      "^program: [^\n]*/a lost\\?mapping: ended while it was mapped[^\n]*\n$");
}

TEST_F(LostMappingTest, OneAmongOthersIsNamedAfterMovesToo) {
  const std::string other = path_.string() + " of others";
  ASSERT_TRUE(WriteFile(other, std::string(5000, 'o')).ok());
  EXPECT_EXIT(
      {
        EndWhereMappingsAreLost("", 1);
        const Result<MappedFile> first = MappedFile::Open(other);
        Result<MappedFile> file = MappedFile::Open(path_);
        const MappedFile moved = *std::move(file);
        ReadBehindEnd(moved, 4096, 4096);
      },
      testing::ExitedWithCode(1), "a lost.mapping: ended");
  std::filesystem::remove(other);
}

TEST_F(LostMappingTest, WhatWasForgottenEndsAsItAlwaysDid) {
  EXPECT_EXIT(
      {
        EndWhereMappingsAreLost("", 1);
        const Result<MappedFile> file = MappedFile::Open(path_);
        ForgetMapping(file->bytes());
        ReadBehindEnd(*file, 0, 0);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace winnow
