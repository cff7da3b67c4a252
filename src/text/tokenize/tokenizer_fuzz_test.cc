// The fuzzer's corpus, in every test run.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "source_dir.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace winnow {
namespace {

TEST(TokenizerFuzzTest, CorpusMakesNoFinding) {
  const std::filesystem::path folder =
      std::filesystem::path(WINNOW_SOURCE_DIR) / "src/text/fuzz_corpus";
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    const auto content = ReadFile(entry.path(), size_t{1} << 20);
    ASSERT_TRUE(content.ok()) << content.error().message;
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(content->data()),
                           content->size());
    ++num_files;
  }
  EXPECT_GE(num_files, 10);
}

}  // namespace
}  // namespace winnow
