#include "base/direct_folder.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <random>

#include "tests/golden/temporary_folder.h"

namespace winnow {
namespace {

constexpr int64_t kTransferBytes = 4 * kBlockBytes;

class DirectFolderTest : public testing::TestWithParam<bool> {
 protected:
  Result<std::unique_ptr<DirectFolder>> Open() const {
    return DirectFolder::Open(temporary_.path() / "kv",
                              {.max_transfers = 8, .use_uring = GetParam()});
  }

  const TemporaryFolder temporary_{GetParam() ? "uring" : "one_by_one"};
};

void MoveAll(BlockFolder& folder, BlockTransfer::Kind kind,
             std::span<std::byte> bytes) {
  const int64_t num_transfers = std::ssize(bytes) / kTransferBytes;
  int64_t num_begun = 0, num_ended = 0;
  while (num_ended < num_transfers) {
    std::vector<BlockTransfer> transfers;
    while (num_begun < num_transfers &&
           num_begun - num_ended < folder.max_transfers()) {
      const int64_t offset = kTransferBytes * num_begun;
      transfers.push_back({.tag = static_cast<uint64_t>(num_begun++),
                           .kind = kind,
                           .offset = offset,
                           .bytes = bytes.subspan(static_cast<size_t>(offset),
                                                  kTransferBytes)});
    }
    folder.Submit(transfers);
    std::array<BlockCompletion, 3> completions;
    const size_t num_collected = folder.Collect(completions, /*wait=*/true);
    ASSERT_GT(num_collected, 0u);
    for (size_t i = 0; i < num_collected; ++i) {
      EXPECT_EQ(completions[i].error, 0);
      EXPECT_EQ(completions[i].num_bytes, kTransferBytes);
    }
    num_ended += static_cast<int64_t>(num_collected);
  }
}

TEST_P(DirectFolderTest, BytesComeBackAlsoForTheNext) {
  constexpr int64_t kNumBytes = 40 * kTransferBytes;
  const BlockBuffer written = AllocateBlocks(kNumBytes);
  std::mt19937 random(1);
  for (int64_t i = 0; i < kNumBytes; ++i) {
    written[static_cast<size_t>(i)] = static_cast<std::byte>(random());
  }
  {
    auto folder = Open();
    ASSERT_TRUE(folder.ok()) << folder.error().message;
    ASSERT_TRUE((*folder)->Resize(kNumBytes).ok());
    MoveAll(**folder, BlockTransfer::Kind::kWrite, {written.get(), kNumBytes});
  }
  auto folder = Open();
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  ASSERT_TRUE((*folder)->Resize(kNumBytes).ok());
  const BlockBuffer read = AllocateBlocks(kNumBytes);
  MoveAll(**folder, BlockTransfer::Kind::kRead, {read.get(), kNumBytes});
  EXPECT_TRUE(std::equal(read.get(), read.get() + kNumBytes, written.get()));
}

TEST_P(DirectFolderTest, GrowsWithZerosAndIsCutOff) {
  auto folder = Open();
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  const BlockBuffer bytes = AllocateBlocks(2 * kTransferBytes);
  std::fill_n(bytes.get(), 2 * kTransferBytes, std::byte{7});
  ASSERT_TRUE((*folder)->Resize(2 * kTransferBytes).ok());
  MoveAll(**folder, BlockTransfer::Kind::kWrite,
          {bytes.get(), 2 * kTransferBytes});
  ASSERT_TRUE((*folder)->Resize(kTransferBytes).ok());
  ASSERT_TRUE((*folder)->Resize(2 * kTransferBytes).ok());
  MoveAll(**folder, BlockTransfer::Kind::kRead,
          {bytes.get(), 2 * kTransferBytes});
  EXPECT_EQ(bytes[0], std::byte{7});
  EXPECT_EQ(bytes[kTransferBytes - 1], std::byte{7});
  EXPECT_EQ(bytes[kTransferBytes], std::byte{0});
  EXPECT_EQ(bytes[2 * kTransferBytes - 1], std::byte{0});
}

TEST_P(DirectFolderTest, WhatWasNeverWrittenIsZeros) {
  auto folder = Open();
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  ASSERT_TRUE((*folder)->Resize(kBlockBytes).ok());
  const BlockBuffer bytes = AllocateBlocks(kBlockBytes);
  std::fill_n(bytes.get(), kBlockBytes, std::byte{7});
  const BlockTransfer read = {
      .bytes = {bytes.get(), static_cast<size_t>(kBlockBytes)}};
  (*folder)->Submit({&read, 1});
  std::array<BlockCompletion, 1> done;
  ASSERT_EQ((*folder)->Collect(done, /*wait=*/true), 1u);
  EXPECT_EQ(done[0].num_bytes, kBlockBytes);
  EXPECT_EQ(std::count(bytes.get(), bytes.get() + kBlockBytes, std::byte{0}),
            kBlockBytes);
  EXPECT_EQ((*folder)->Collect(done, /*wait=*/true), 0u) << "nothing is left";
}

TEST_P(DirectFolderTest, SmallFilesAreReplaced) {
  auto folder = Open();
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  EXPECT_EQ((*folder)->ReadSmall("header").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE((*folder)->WriteSmall("header", "one").ok());
  ASSERT_TRUE((*folder)->WriteSmall("header", "two").ok());
  EXPECT_EQ(*(*folder)->ReadSmall("header"), "two");
}

TEST_P(DirectFolderTest, ASecondOneIsRefused) {
  {
    auto folder = Open();
    ASSERT_TRUE(folder.ok()) << folder.error().message;
    const auto second = Open();
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().message.find("another process keeps its KV there"),
              std::string::npos)
        << second.error().message;
    const pid_t child = fork();
    if (child == 0) _exit(Open().ok() ? 1 : 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(Open().ok()) << "the lock goes with its owner";
}

// A link would say where to write, a pipe keeps nothing.
TEST_P(DirectFolderTest, LinksAndPipesAreRefused) {
  ASSERT_TRUE(Open().ok());
  const std::filesystem::path other = temporary_.path() / "precious";
  for (const char* name : {"blocks", "lock"}) {
    const std::filesystem::path file = temporary_.path() / "kv" / name;
    std::filesystem::remove(file);
    std::filesystem::create_symlink(other, file);
    const auto folder = Open();
    ASSERT_FALSE(folder.ok()) << name;
    EXPECT_NE(folder.error().message.find("must be a regular file"),
              std::string::npos)
        << folder.error().message;
    std::filesystem::remove(file);
  }
  EXPECT_FALSE(std::filesystem::exists(other));
  ASSERT_EQ(mkfifo((temporary_.path() / "kv" / "blocks").c_str(), 0600), 0);
  EXPECT_FALSE(Open().ok());
}

TEST_P(DirectFolderTest, SaysWhatCannotBeOpened) {
  const auto folder =
      DirectFolder::Open(temporary_.path() / "missing" / "kv", {});
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.error().message.find("cannot make the folder"),
            std::string::npos);
}

// Permissions hold whoever runs the test, also root, while it lives; or not
// as_asked(), where the system does not let it be so.
class HeldByPermissions {
 public:
  HeldByPermissions() {
    if (syscall(SYS_capget, &header_, before_.data()) != 0) return;
    auto without = before_;
    for (const unsigned right : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH}) {
      without[CAP_TO_INDEX(right)].effective &= ~CAP_TO_MASK(right);
    }
    as_asked_ = syscall(SYS_capset, &header_, without.data()) == 0;
  }
  HeldByPermissions(const HeldByPermissions&) = delete;
  HeldByPermissions& operator=(const HeldByPermissions&) = delete;
  ~HeldByPermissions() {
    if (as_asked_) syscall(SYS_capset, &header_, before_.data());
  }

  bool as_asked() const { return as_asked_; }

 private:
  __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> before_ = {};
  bool as_asked_ = false;
};

TEST_P(DirectFolderTest, SaysThatAFolderIsReadOnly) {
  using std::filesystem::perms;
  const std::filesystem::path path = temporary_.path() / "kv";
  constexpr perms kReadOnly = perms::owner_read | perms::owner_exec;
  for (const bool has_files : {false, true}) {
    if (has_files) {
      ASSERT_TRUE(Open().ok());
      for (const auto& file : std::filesystem::directory_iterator(path)) {
        std::filesystem::permissions(file, kReadOnly);
      }
    } else {
      std::filesystem::create_directory(path);
    }
    std::filesystem::permissions(path, kReadOnly);
    {
      const HeldByPermissions held;
      if (!held.as_asked()) GTEST_SKIP() << "permissions do not hold root";
      const auto folder = Open();
      ASSERT_FALSE(folder.ok());
      EXPECT_EQ(folder.error().code, ErrorCode::kIo);
      EXPECT_EQ(folder.error().message, path.string() +
                                            ": cannot write to the folder: "
                                            "Permission denied");
    }
    std::filesystem::permissions(path, perms::owner_all);
  }
}

TEST_P(DirectFolderTest, SaysWhatTheDiskHasNoRoomFor) {
  auto folder = Open();
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  ASSERT_TRUE((*folder)->Resize(kBlockBytes).ok());
  const Status grown = (*folder)->Resize(int64_t{1} << 50);
  ASSERT_FALSE(grown.ok());
  EXPECT_EQ(grown.error().code, ErrorCode::kResourceExhausted)
      << grown.error().message;
  EXPECT_EQ(std::filesystem::file_size(temporary_.path() / "kv" / "blocks"),
            static_cast<uintmax_t>(kBlockBytes));
}

INSTANTIATE_TEST_SUITE_P(Transfers, DirectFolderTest, testing::Bool(),
                         [](const auto& each) {
                           return each.param ? "Uring" : "OneByOne";
                         });

}  // namespace
}  // namespace winnow
