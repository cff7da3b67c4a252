// A process that writes is killed at a random moment; what the next one finds
// is whole. 20 times, or as often as the environment's WINNOW_DISK_KILLS says.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/direct_folder.h"
#include "cache/disk/disk_store.h"
#include "cache/disk/disk_test_pieces.h"
#include "tests/golden/temporary_folder.h"

namespace winnow {
namespace {

constexpr int64_t kBigPieceBytes = 100000;
constexpr int64_t kMaxBytes = 6 << 20;
constexpr int kNumTexts = 40;
constexpr int kMaxPages = 6;

TestText NumberedText(int number) {
  std::mt19937 random(static_cast<uint32_t>(number));
  return DrawText(random, kMaxPages);
}

Result<std::unique_ptr<DiskStore>> OpenStore(
    const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<DirectFolder> folder,
                   DirectFolder::Open(path, {.max_transfers = 8}));
  return DiskStore::Open(std::move(folder),
                         {.header = {.made_with = {{"model", "a tiny model"}},
                                     .piece_bytes = kBigPieceBytes},
                          .max_bytes = kMaxBytes});
}

// In the child: writes texts over and over, more than fit, until it is killed.
[[noreturn]] void WriteForEver(const std::filesystem::path& path, int seed) {
  Result<std::unique_ptr<DiskStore>> store = OpenStore(path);
  if (!store.ok()) _exit(3);
  for (int i = seed;; ++i) {
    const TestText text = NumberedText(i % kNumTexts);
    std::vector<std::vector<std::byte>> pieces;
    for (size_t page = 0; page < text.num_pages(); ++page) {
      pieces.push_back(PieceOf(text, page, kBigPieceBytes));
    }
    const std::vector<std::span<const std::byte>> sources(pieces.begin(),
                                                          pieces.end());
    (*store)->Write(text.path(), text.kinds, 0, sources);
    while ((*store)->num_under_way() > 0) (*store)->Wait();
  }
}

void KillAWriter(const std::filesystem::path& path, int seed,
                 std::mt19937& random) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) WriteForEver(path, seed);
  std::this_thread::sleep_for(
      std::chrono::microseconds(2000 + random() % 60000));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "exit status " << WEXITSTATUS(status);
}

// Reads all texts; returns how many pieces there were.
int ExpectWhole(const std::filesystem::path& path) {
  Result<std::unique_ptr<DiskStore>> opened = OpenStore(path);
  EXPECT_TRUE(opened.ok()) << opened.error().message;
  if (!opened.ok()) return 0;
  DiskStore& store = **opened;
  EXPECT_TRUE(BrokenInvariants(store.index().Snapshot()).empty());
  const std::vector<PageKind> kinds = {0, 1};
  int num_whole = 0;
  for (int i = 0; i < kNumTexts; ++i) {
    TestText text = NumberedText(i);
    const std::vector<DiskPlace> found =
        store.Find(text.path(), text.num_pages(), kinds);
    std::vector<std::vector<std::byte>> pieces(
        found.size(), std::vector<std::byte>(kBigPieceBytes));
    for (size_t page = 0; page < found.size(); ++page) {
      text.kinds[page] = found[page].kind;
    }
    const std::vector<std::span<std::byte>> targets(pieces.begin(),
                                                    pieces.end());
    std::map<uint64_t, size_t> pages;
    for (const DiskTicket& ticket : store.Read(found, targets)) {
      pages[ticket.ticket] = ticket.page;
    }
    while (store.num_under_way() > 0) {
      for (const PieceDone& done : store.Wait()) {
        if (!done.status.ok()) continue;  // It was torn, and is a miss.
        const size_t page = pages.at(done.ticket);
        EXPECT_EQ(pieces[page], PieceOf(text, page, kBigPieceBytes))
            << "text " << i << " page " << page;
        ++num_whole;
      }
    }
  }
  return num_whole;
}

TEST(DiskKill, WhatAKilledProcessLeavesIsWhole) {
  const char* wanted = std::getenv("WINNOW_DISK_KILLS");
  const int num_kills = wanted == nullptr ? 20 : std::atoi(wanted);
  ASSERT_GT(num_kills, 0);
  const TemporaryFolder folder("disk_kill");
  const std::filesystem::path path = folder.path() / "kv";
  std::mt19937 random(7);
  int64_t num_whole = 0;
  for (int i = 0; i < num_kills && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("kill {}", i));
    KillAWriter(path, i * 5, random);
    if (!HasFailure()) num_whole += ExpectWhole(path);
  }
  // A store that finds nothing would pass otherwise.
  EXPECT_GT(num_whole, num_kills);
}

}  // namespace
}  // namespace winnow
