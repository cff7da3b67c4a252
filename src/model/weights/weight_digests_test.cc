#include "model/weights/weight_digests.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

class WeightDigestsTest : public testing::Test {
 protected:
  WeightDigestsTest() {
    WriteTinyModel(ReadTinyCase("llama"), folder_.path(), {.num_shards = 2});
  }
  // The stamps' clock ticks on, so that the next write leaves another stamp.
  static void AwaitTick() {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
  }
  Checkpoint Opened() const { return Checkpoint::Open(folder_.path()).value(); }
  std::vector<FileDigest> Digests() const {
    return DigestFiles(Opened(), DigestMemory(memory_), {});
  }
  void Flip(const std::filesystem::path& file, int64_t at) const {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(at);
    const int byte = stream.get();
    stream.seekp(at);
    stream.put(static_cast<char>(byte ^ 1));
  }

  TemporaryFolder folder_{"weight_digests"};
  const std::filesystem::path memory_ = folder_.path() / "memory";
};

TEST_F(WeightDigestsTest, AreOfAllFilesByName) {
  const Checkpoint checkpoint = Opened();
  const auto digests = DigestFiles(checkpoint, DigestMemory({}), {});
  ASSERT_EQ(digests.size(), 2u);
  ThreadPool pool(1);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(digests[i].path, checkpoint.files()[i].path());
    EXPECT_EQ(digests[i].hash,
              HashContent(checkpoint.files()[i].bytes(), pool, {}));
  }
  EXPECT_NE(digests[0].hash, digests[1].hash);
}

TEST_F(WeightDigestsTest, ProgressIsOfWhatIsToBeHashed) {
  AwaitTick();
  std::vector<std::pair<int64_t, int64_t>> told;
  const auto watch = [&](int64_t done, int64_t total) {
    told.emplace_back(done, total);
  };
  DigestMemory memory(memory_);
  const Checkpoint checkpoint = Opened();
  const auto digests = DigestFiles(checkpoint, memory, watch);
  const int64_t first = digests[0].stamp.num_bytes;
  const int64_t both = first + digests[1].stamp.num_bytes;
  using Told = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(told, (Told{{first, both}, {both, both}}));
  told.clear();
  memory.Remember(digests[0].path, digests[0].stamp, digests[0].hash);
  DigestFiles(checkpoint, memory, watch);
  EXPECT_EQ(told, (Told{{both - first, both - first}}));
}

TEST_F(WeightDigestsTest, AFileIsHashedOnceWhileItStaysAsItIs) {
  AwaitTick();
  const auto hashed = Digests();
  EXPECT_FALSE(hashed[0].is_known || hashed[1].is_known);
  DigestMemory memory(memory_);
  ASSERT_TRUE(ConfirmDigests(hashed, memory).ok());
  const auto known = Digests();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(known[i].is_known);
    EXPECT_EQ(known[i].hash, hashed[i].hash);
  }
  // In place, with the time of the last write set back.
  const auto written = std::filesystem::last_write_time(known[1].path);
  Flip(known[1].path, known[1].stamp.num_bytes - 1);
  std::filesystem::last_write_time(known[1].path, written);
  const auto changed = Digests();
  EXPECT_TRUE(changed[0].is_known);
  EXPECT_FALSE(changed[1].is_known);
  EXPECT_NE(changed[1].hash, hashed[1].hash);
}

TEST_F(WeightDigestsTest, AFileThatChangesWhileItIsLoadedIsAnError) {
  AwaitTick();
  const auto digests = Digests();
  Flip(digests[0].path, digests[0].stamp.num_bytes - 1);
  DigestMemory memory(memory_);
  const Status status = ConfirmDigests(digests, memory);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            digests[0].path.string() +
                ": must stay as it is while it is loaded, has changed: start "
                "again when it is whole");
  EXPECT_FALSE(std::filesystem::exists(memory_));
  const auto gone = Digests();
  std::filesystem::remove(gone[1].path);
  EXPECT_FALSE(ConfirmDigests(gone, memory).ok());
}

// Within a tick a second write leaves the stamp of the first.
TEST_F(WeightDigestsTest, AFileWrittenJustNowIsNotRemembered) {
  AwaitTick();
  auto digests = Digests();
  DigestMemory memory(memory_);
  digests[0].opened_ns = digests[0].stamp.changed_ns + 1'000'000;
  ASSERT_TRUE(ConfirmDigests(digests, memory).ok());
  EXPECT_FALSE(Digests()[0].is_known);
  EXPECT_TRUE(Digests()[1].is_known);
}

}  // namespace
}  // namespace winnow
