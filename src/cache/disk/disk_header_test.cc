#include "cache/disk/disk_header.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/faulty_folder.h"

namespace winnow {
namespace {

const DiskHeader kHeader = {
    .made_with = {{"config.json: rope_theta", "500000"},
                  {"--dtype", "bfloat16"},
                  {"one file.safetensors: hash of all bytes", "0a"}},
    .piece_bytes = 4096};

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

// Each value alone, one that is missing, and one that the model lacks.
TEST(DiskHeader, NamesWhatDiffersAndWhatToDo) {
  FaultyDisk disk(1);
  const auto folder = disk.Open();
  ASSERT_TRUE(OpenHeader(*folder, kHeader).ok());
  for (size_t i = 0; i < kHeader.made_with.size(); ++i) {
    DiskHeader other = kHeader;
    auto& [name, value] = other.made_with[i];
    const std::string was = std::exchange(value, "another");
    EXPECT_EQ(ErrorOf(*folder, other),
              folder->path() + ": " + name +
                  ": the folder's KV was made with \"" + was +
                  "\", this model has \"another\"; a folder keeps the KV of "
                  "one model: give another, or empty this one");
    other.made_with.erase(other.made_with.begin() +
                          static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(ErrorOf(*folder, other).find("this model has nothing of that"),
              std::string::npos);
  }
  DiskHeader more = kHeader;
  more.made_with.emplace_back("new", "1");
  EXPECT_NE(ErrorOf(*folder, more)
                .find(": new: the folder's KV was made with nothing of that "
                      "name, this model has \"1\""),
            std::string::npos);
  EXPECT_EQ(ErrorOf(*folder, kHeader), "");
}

TEST(DiskHeader, TellsTheFirstDifferenceAndNamesOthers) {
  FaultyDisk disk(1);
  DiskHeader header = {.made_with = {}, .piece_bytes = 4096};
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    header.made_with.emplace_back(name, "1");
  }
  ASSERT_TRUE(OpenHeader(*disk.Open(), header).ok());
  for (auto& [name, value] : header.made_with) value = "2";
  EXPECT_NE(ErrorOf(*disk.Open(), header)
                .find("made with \"1\", this model has \"2\"; so differ b, c, "
                      "d and 2 more; a folder"),
            std::string::npos)
      << ErrorOf(*disk.Open(), header);
}

// Any name of a file is told apart.
TEST(DiskHeader, KeepsEveryNameAndValueAsItIs) {
  const DiskHeader odd = {
      .made_with = {{"a b: \"c\"\\", "\nmade_with\n{}"}, {"é\n", ""}},
      .piece_bytes = 4096};
  FaultyDisk disk(1);
  ASSERT_TRUE(OpenHeader(*disk.Open(), odd).ok());
  EXPECT_EQ(ErrorOf(*disk.Open(), odd), "");
  DiskHeader other = odd;
  other.made_with[1].second = " ";
  EXPECT_NE(ErrorOf(*disk.Open(), other), "");
}

TEST(DiskHeader, SaysThatAFolderIsOlder) {
  FaultyDisk disk(1);
  const auto folder = disk.Open();
  ASSERT_TRUE(folder
                  ->WriteSmall("header",
                               "version 1\nfolder 0123\npiece_bytes 4096\nkey "
                               "model 0123, bfloat16\n")
                  .ok());
  EXPECT_EQ(ErrorOf(*folder, kHeader),
            folder->path() +
                "/header: version must be 2, is 1, which does not say all that "
                "its KV was made with; give another folder, or empty this one");
  ASSERT_TRUE(folder->WriteSmall("header", "version 3\n").ok());
  EXPECT_EQ(ErrorOf(*folder, kHeader),
            folder->path() +
                "/header: version must be 2, is 3; give another "
                "folder, or empty this one");
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

TEST(DiskHeader, RefusesWhatIsCutOffOrOfAnotherSize) {
  FaultyDisk disk(1);
  const auto folder = disk.Open();
  ASSERT_TRUE(OpenHeader(*folder, kHeader).ok());
  const std::string whole = *folder->ReadSmall("header");
  for (size_t size = 1; size < whole.size(); ++size) {
    ASSERT_TRUE(folder->WriteSmall("header", whole.substr(0, size)).ok());
    EXPECT_NE(ErrorOf(*folder, kHeader), "") << size;
  }
  ASSERT_TRUE(folder->WriteSmall("header", whole).ok());
  DiskHeader other = kHeader;
  other.piece_bytes = 8192;
  EXPECT_NE(
      ErrorOf(*folder, other).find("piece_bytes must be \"8192\", is \"4096\""),
      std::string::npos);
  EXPECT_EQ(ErrorOf(*folder, kHeader), "");
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
  ASSERT_TRUE(folder
                  ->WriteSmall("header", "version 2\nmade_with\n{\"" +
                                             std::string(9999, 'x') +
                                             "\": \"y\"}")
                  .ok());
  error = ErrorOf(*folder, kHeader);
  EXPECT_NE(error.find("rope_theta: the folder's KV was made with nothing"),
            std::string::npos)
      << error;
  EXPECT_LT(error.size(), 500u);
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
