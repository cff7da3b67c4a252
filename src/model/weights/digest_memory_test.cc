#include "model/weights/digest_memory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "tests/golden/temporary_folder.h"

namespace winnow {
namespace {

constexpr ContentHash kSomeHash = {.high = 1, .low = 2};

class DigestMemoryTest : public testing::Test {
 protected:
  DigestMemoryTest() {
    CHECK(WriteFile(weights_, "weights").ok());
    stamp_ = ReadStamp(weights_).value();
  }
  void RememberAndSave() {
    DigestMemory memory(file_);
    memory.Remember(weights_, stamp_, kSomeHash);
    EXPECT_EQ(memory.Find(weights_, stamp_), kSomeHash);
    memory.Save();
  }
  std::optional<ContentHash> Found() const {
    return DigestMemory(file_).Find(weights_, stamp_);
  }
  std::string Content() const { return ReadFile(file_, 1 << 20).value(); }

  TemporaryFolder folder_{"digest_memory"};
  const std::filesystem::path file_ = folder_.path() / "a/b/weights.jsonl";
  const std::filesystem::path weights_ = folder_.path() / "model.safetensors";
  FileStamp stamp_;
};

TEST_F(DigestMemoryTest, TheNextProcessKnowsWhatThisOneHashed) {
  EXPECT_FALSE(Found());
  RememberAndSave();
  EXPECT_EQ(Found(), kSomeHash);
  struct stat info;
  ASSERT_EQ(stat(file_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

// By whatever path it is reached.
TEST_F(DigestMemoryTest, AFileIsKnownByWhereItLies) {
  RememberAndSave();
  const auto link = folder_.path() / "link";
  std::filesystem::create_symlink(weights_, link);
  EXPECT_EQ(DigestMemory(file_).Find(link, stamp_), kSomeHash);
  EXPECT_EQ(DigestMemory(file_).Find(folder_.path() / "a/../link", stamp_),
            kSomeHash);
  const auto other = folder_.path() / "other";
  std::filesystem::copy_file(weights_, other);
  EXPECT_FALSE(DigestMemory(file_).Find(other, stamp_));
}

TEST_F(DigestMemoryTest, AnotherStampIsAnotherFile) {
  RememberAndSave();
  const DigestMemory memory(file_);
  FileStamp other = stamp_;
  ++other.device;
  EXPECT_FALSE(memory.Find(weights_, other));
  other = stamp_;
  ++other.inode;
  EXPECT_FALSE(memory.Find(weights_, other));
  other = stamp_;
  ++other.num_bytes;
  EXPECT_FALSE(memory.Find(weights_, other));
  other = stamp_;
  ++other.modified_ns;
  EXPECT_FALSE(memory.Find(weights_, other));
  other = stamp_;
  ++other.changed_ns;
  EXPECT_FALSE(memory.Find(weights_, other));
  EXPECT_TRUE(memory.Find(weights_, stamp_));
}

TEST_F(DigestMemoryTest, AFlippedBitAnywhereIsForgotten) {
  RememberAndSave();
  const std::string whole = Content();
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; bit += 3) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      ASSERT_TRUE(WriteFile(file_, damaged).ok());
      const auto found = Found();
      // Behind the line, white space may change.
      EXPECT_TRUE(!found || (*found == kSomeHash && at + 1 == whole.size()))
          << at;
    }
  }
}

TEST_F(DigestMemoryTest, WhatIsCutOffOrNoneIsForgottenAndWrittenAnew) {
  RememberAndSave();
  const std::string whole = Content();
  for (const std::string& content :
       {whole.substr(0, whole.size() / 2), std::string("notes\n[]\n{}\n\0", 13),
        std::string(1000, '['), std::string(),
        std::string(R"({"path":"x","line":1})")}) {
    ASSERT_TRUE(WriteFile(file_, content).ok());
    EXPECT_FALSE(Found());
    RememberAndSave();
    EXPECT_EQ(Found(), kSomeHash);
  }
}

TEST_F(DigestMemoryTest, WhatOthersMayWriteIsNotBelieved) {
  RememberAndSave();
  ASSERT_EQ(chmod(file_.c_str(), 0622), 0);
  EXPECT_FALSE(Found());
  ASSERT_EQ(chmod(file_.c_str(), 0600), 0);
  EXPECT_TRUE(Found());
  // A link may lead to anyone's.
  const auto there = folder_.path() / "there";
  std::filesystem::rename(file_, there);
  std::filesystem::create_symlink(there, file_);
  EXPECT_FALSE(Found());
}

TEST_F(DigestMemoryTest, WhatCannotBeWrittenIsNoError) {
  ASSERT_TRUE(WriteFile(folder_.path() / "a", "no folder").ok());
  RememberAndSave();
  EXPECT_FALSE(Found());
  DigestMemory nowhere{std::filesystem::path()};
  nowhere.Remember(weights_, stamp_, kSomeHash);
  nowhere.Save();
}

TEST_F(DigestMemoryTest, KeepsWhatOthersWroteMeanwhile) {
  DigestMemory first(file_), second(file_);
  first.Remember(weights_, stamp_, kSomeHash);
  first.Save();
  const auto other = folder_.path() / "other";
  std::filesystem::copy_file(weights_, other);
  second.Remember(other, stamp_, {});
  second.Save();
  EXPECT_EQ(Found(), kSomeHash);
  EXPECT_EQ(DigestMemory(file_).Find(other, stamp_), ContentHash{});
}

// The XDG base directory specification.
TEST(DigestMemoryFileTest, LiesWhereCachesLie) {
  const auto with = [](const char* cache, const char* home) {
    cache ? setenv("XDG_CACHE_HOME", cache, 1) : unsetenv("XDG_CACHE_HOME");
    home ? setenv("HOME", home, 1) : unsetenv("HOME");
    return DigestMemory::UsersFile().string();
  };
  EXPECT_EQ(with("/c", "/h"), "/c/winnow/weights.jsonl");
  EXPECT_EQ(with(nullptr, "/h"), "/h/.cache/winnow/weights.jsonl");
  EXPECT_EQ(with("", "/h"), "/h/.cache/winnow/weights.jsonl");
  EXPECT_EQ(with("relative", "/h"), "/h/.cache/winnow/weights.jsonl");
  EXPECT_EQ(with(nullptr, nullptr), "");
}

}  // namespace
}  // namespace winnow
