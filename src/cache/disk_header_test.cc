#include "cache/disk_header.h"

#include <gtest/gtest.h>

#include "base/faulty_folder.h"

namespace winnow {
namespace {

const DiskHeader kHeader = {.key = "model a, bfloat16", .piece_bytes = 4096};

std::string ErrorOf(BlockFolder& folder, const DiskHeader& header) {
  const Result<DiskFolderId> id = OpenHeader(folder, header);
  return id.ok() ? "" : id.error().message;
}

TEST(DiskHeader, KeepsItsFolderApart) {
  FaultyDisk disk(1), other_disk(1);
  const Result<DiskFolderId> first = OpenHeader(*disk.Open(), kHeader);
  const Result<DiskFolderId> again = OpenHeader(*disk.Open(), kHeader);
  const Result<DiskFolderId> other = OpenHeader(*other_disk.Open(), kHeader);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_NE(*first, *other);
}

TEST(DiskHeader, NamesWhatDiffers) {
  FaultyDisk disk(1);
  ASSERT_TRUE(OpenHeader(*disk.Open(), kHeader).ok());
  const auto folder = disk.Open();
  EXPECT_NE(ErrorOf(*folder, {.key = "model b", .piece_bytes = 4096})
                .find("key must be \"model b\", is \"model a, bfloat16\""),
            std::string::npos);
  EXPECT_NE(ErrorOf(*folder, {.key = kHeader.key, .piece_bytes = 8192})
                .find("piece_bytes must be \"8192\", is \"4096\""),
            std::string::npos);
  ASSERT_TRUE(folder->WriteSmall("header", "version 2\n").ok());
  EXPECT_NE(ErrorOf(*folder, kHeader).find("version must be \"1\", is \"2\""),
            std::string::npos);
}

TEST(DiskHeader, RefusesWhatIsDamaged) {
  FaultyDisk disk(1);
  const auto folder = disk.Open();
  ASSERT_TRUE(OpenHeader(*folder, kHeader).ok());
  std::string text = *folder->ReadSmall("header");
  const size_t digits = text.find("folder ") + 7;
  text[digits] = 'x';
  ASSERT_TRUE(folder->WriteSmall("header", text).ok());
  EXPECT_NE(ErrorOf(*folder, kHeader).find("folder must be 32 hexadecimal"),
            std::string::npos);
  text.erase(digits, 1);
  ASSERT_TRUE(folder->WriteSmall("header", text).ok());
  EXPECT_NE(ErrorOf(*folder, kHeader).find("folder must be 32 hexadecimal"),
            std::string::npos);
}

TEST(DiskHeader, BeginsAnewWhereItWasNeverWritten) {
  FaultyDisk disk(1);
  const auto folder = disk.Open();
  ASSERT_TRUE(folder->WriteSmall("header", "").ok());
  EXPECT_TRUE(OpenHeader(*folder, kHeader).ok());
}

// Whose bytes these are, nobody knows.
TEST(DiskHeader, LeavesBlocksOfOthersAlone) {
  FaultyDisk disk(1);
  const auto folder = disk.Open();
  ASSERT_TRUE(folder->Resize(2 * kBlockBytes).ok());
  EXPECT_NE(ErrorOf(*folder, kHeader).find("has blocks of 8.0 KiB and no"),
            std::string::npos)
      << ErrorOf(*folder, kHeader);
  ASSERT_TRUE(folder->WriteSmall("header", "").ok());
  EXPECT_NE(ErrorOf(*folder, kHeader), "");
  EXPECT_EQ(*folder->ReadSmall("header"), "");
}

TEST(DiskHeader, SaysLittleOfWhatIsNone) {
  FaultyDisk disk(1);
  const auto folder = disk.Open();
  ASSERT_TRUE(
      folder->WriteSmall("header", "GIF8\x01" + std::string(9999, 'x')).ok());
  std::string error = ErrorOf(*folder, kHeader);
  EXPECT_NE(error.find("must begin with \"version\", begins with \"GIF8?xx"),
            std::string::npos)
      << error;
  EXPECT_LT(error.size(), 400u);
  ASSERT_TRUE(
      folder->WriteSmall("header", "version 1\nkey " + std::string(9999, 'x'))
          .ok());
  error = ErrorOf(*folder, kHeader);
  EXPECT_NE(error.find("key must be \"model a"), std::string::npos) << error;
  EXPECT_LT(error.size(), 400u);
}

// A folder whose header cannot be read is not begun anew: what lies in it would
// be lost.
TEST(DiskHeader, WhatCannotBeReadStays) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    FaultyDisk disk(seed);
    const Result<DiskFolderId> first = OpenHeader(*disk.Open(), kHeader);
    ASSERT_TRUE(first.ok());
    disk.faults().small_error = 0.5;
    const Result<DiskFolderId> troubled = OpenHeader(*disk.Open(), kHeader);
    disk.faults() = {};
    const Result<DiskFolderId> again = OpenHeader(*disk.Open(), kHeader);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *first);
    EXPECT_EQ(troubled.ok() ? *troubled : *first, *first);
  }
}

TEST(DiskHeader, SaysWhatTheDiskRefuses) {
  FaultyDisk disk(1);
  disk.faults().is_read_only = true;
  EXPECT_NE(ErrorOf(*disk.Open(), kHeader).find("EROFS"), std::string::npos);
  disk.faults() = {.small_error = 1};
  EXPECT_NE(ErrorOf(*disk.Open(), kHeader).find("EIO"), std::string::npos);
}

}  // namespace
}  // namespace winnow
