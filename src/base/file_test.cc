#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <thread>

namespace winnow {
namespace {

std::filesystem::path TestPath(const char* name) {
  return std::filesystem::path(testing::TempDir()) / name;
}

TEST(FileTest, WriteReadAndMapAgree) {
  const auto path = TestPath("winnow_file_test");
  ASSERT_TRUE(WriteFile(path, "some bytes").ok());
  EXPECT_EQ(*ReadFile(path, 100), "some bytes");
  Result<MappedFile> opened = MappedFile::Open(path);
  ASSERT_TRUE(opened.ok());
  const MappedFile moved = std::move(opened).value();
  ASSERT_EQ(moved.bytes().size(), 10u);
  EXPECT_EQ(std::memcmp(moved.bytes().data(), "some bytes", 10), 0);
}

TEST(FileTest, AnEmptyFileMapsToNothing) {
  const auto path = TestPath("winnow_empty_file");
  ASSERT_TRUE(WriteFile(path, "").ok());
  EXPECT_TRUE(MappedFile::Open(path)->bytes().empty());
}

// What stands at its path is another matter.
TEST(FileTest, AMappedFileKnowsItsOwnStamp) {
  const std::string path =
      testing::TempDir() + "winnow_mapped_stamp" + std::to_string(getpid());
  ASSERT_TRUE(WriteFile(path, "before").ok());
  Result<MappedFile> opened = MappedFile::Open(path);
  const MappedFile mapped = std::move(opened).value();
  EXPECT_EQ(mapped.StampNow().value(), mapped.stamp());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::fstream(path, std::ios::in | std::ios::out) << "behind";
  const FileStamp written = mapped.StampNow().value();
  EXPECT_NE(written, mapped.stamp());
  EXPECT_EQ(written, ReadStamp(path).value());
  ASSERT_TRUE(WriteFile(path, "another file").ok());
  EXPECT_EQ(mapped.StampNow()->inode, mapped.stamp().inode);
  EXPECT_EQ(mapped.StampNow()->num_bytes, 6);
  std::filesystem::remove(path);
}

// Whoever sets the time of the last write back cannot hide a write.
TEST(FileTest, AWriteInPlaceChangesTheStamp) {
  const std::string path =
      testing::TempDir() + "winnow_stamp" + std::to_string(getpid());
  ASSERT_TRUE(WriteFile(path, "before").ok());
  const MappedFile mapped = MappedFile::Open(path).value();
  EXPECT_EQ(mapped.stamp().num_bytes, 6);
  EXPECT_EQ(ReadStamp(path).value(), mapped.stamp());
  EXPECT_GE(mapped.opened_ns(), mapped.stamp().modified_ns);
  const auto written = std::filesystem::last_write_time(path);
  // Longer than a tick of the clock that files' times are taken from.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::ofstream(path, std::ios::in | std::ios::out) << "B";
  std::filesystem::last_write_time(path, written);
  const FileStamp stamp = ReadStamp(path).value();
  EXPECT_EQ(stamp.modified_ns, mapped.stamp().modified_ns);
  EXPECT_EQ(stamp.inode, mapped.stamp().inode);
  EXPECT_NE(stamp, mapped.stamp());
  std::filesystem::remove(path);
  EXPECT_EQ(ReadStamp(path).error().code, ErrorCode::kNotFound);
}

TEST(FileTest, FailuresNameThePathAndTheReason) {
  const Error missing = ReadFile("/nowhere/x", 10).error();
  EXPECT_EQ(missing.code, ErrorCode::kNotFound);
  EXPECT_NE(missing.message.find("/nowhere/x: cannot open: No such file"),
            std::string::npos)
      << missing.message;
  EXPECT_NE(MappedFile::Open(testing::TempDir())
                .error()
                .message.find("not a regular file"),
            std::string::npos);
  const auto path = TestPath("winnow_large_file");
  ASSERT_TRUE(WriteFile(path, "0123456789").ok());
  EXPECT_NE(ReadFile(path, 9).error().message.find("at most 9 bytes, is 10"),
            std::string::npos);
}

// A folder that is not there cannot take a file, and is not made.
TEST(FileTest, AFailedWriteLeavesNothingBehind) {
  const auto dir = TestPath("winnow_missing_dir");
  EXPECT_FALSE(WriteFile(dir / "file", "x").ok());
  EXPECT_FALSE(std::filesystem::exists(dir));
}

// Opening a pipe that nobody writes to would wait for ever.
TEST(FileTest, APipeIsRefusedWithoutWaiting) {
  const auto path = TestPath("winnow_pipe");
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(ReadFile(path, 9).error().message.find("not a regular file"),
            std::string::npos);
  EXPECT_NE(MappedFile::Open(path).error().message.find("not a regular file"),
            std::string::npos);
  std::filesystem::remove(path);
}

TEST(FileTest, ALinkStaysALink) {
  const auto link = TestPath("winnow_link");
  const auto target = TestPath("winnow_link_target");
  std::filesystem::remove(link);
  std::filesystem::remove(target);
  std::filesystem::create_symlink(target.filename(), link);
  for (const char* content : {"to a new file", "to an old one"}) {
    ASSERT_TRUE(CheckCanWrite(link).ok());
    ASSERT_TRUE(WriteFile(link, content).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_EQ(*ReadFile(target, 100), content);
  }
}

TEST(FileTest, TheCheckKeepsWhatIsThereAndNamesThePath) {
  const auto path = TestPath("winnow_checked");
  ASSERT_TRUE(WriteFile(path, "old").ok());
  EXPECT_TRUE(CheckCanWrite(path).ok());
  EXPECT_EQ(*ReadFile(path, 9), "old");
  std::filesystem::remove(path);
  EXPECT_TRUE(CheckCanWrite(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(CheckCanWrite("/nowhere/out").error().message,
            "/nowhere/out: cannot create: No such file or directory");
  EXPECT_FALSE(CheckCanWrite(testing::TempDir()).ok());
  EXPECT_TRUE(CheckCanWrite("/dev/full").ok());
}

// /dev/full takes no byte; it must stay the device that it is.
TEST(FileTest, ADeviceIsWrittenToAndAFullDiskIsAnError) {
  const Error full = WriteFile("/dev/full", "x").error();
  EXPECT_NE(full.message.find("/dev/full: cannot write: No space left"),
            std::string::npos)
      << full.message;
  EXPECT_TRUE(WriteFile("/dev/null", "x").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace winnow
