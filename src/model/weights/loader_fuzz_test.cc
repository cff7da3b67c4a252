// The fuzzers' corpus, in every test run.
#include "model/weights/loader_fuzz.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "base/file.h"
#include "source_dir.h"

namespace winnow {
namespace {

void RunCorpus(const char* name, void (*fuzz)(std::span<const std::byte>)) {
  const std::filesystem::path folder =
      std::filesystem::path(WINNOW_SOURCE_DIR) / "src/model/fuzz_corpus" / name;
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    const auto content = ReadFile(entry.path(), size_t{1} << 20);
    ASSERT_TRUE(content.ok()) << content.error().message;
    // Of exactly its size, so that a sanitizer sees a byte too far.
    const std::vector<char> bytes(content->begin(), content->end());
    fuzz(std::as_bytes(std::span(bytes)));
    ++num_files;
  }
  EXPECT_GE(num_files, 10) << folder;
}

TEST(LoaderFuzzTest, SafetensorsCorpusMakesNoFinding) {
  RunCorpus("safetensors", FuzzSafetensors);
}

TEST(LoaderFuzzTest, ConfigCorpusMakesNoFinding) {
  RunCorpus("config", FuzzConfig);
}

}  // namespace
}  // namespace winnow
