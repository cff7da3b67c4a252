// TemporaryFolder: a folder for one test's files.
#ifndef WINNOW_TESTS_GOLDEN_TEMPORARY_FOLDER_H_
#define WINNOW_TESTS_GOLDEN_TEMPORARY_FOLDER_H_

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace winnow {

// Owns a folder that exists, with all in it, as long as this object. Named
// after `name` and the process: names are distinct within a test program.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string_view name)
      : path_(std::filesystem::path(testing::TempDir()) /
              fmt::format("winnow_{}_{}", name, getpid())) {
    std::filesystem::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace winnow

#endif  // WINNOW_TESTS_GOLDEN_TEMPORARY_FOLDER_H_
