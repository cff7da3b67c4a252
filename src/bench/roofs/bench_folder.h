// BenchFolder: a temporary folder of a benchmark.
#ifndef WINNOW_BENCH_ROOFS_BENCH_FOLDER_H_
#define WINNOW_BENCH_ROOFS_BENCH_FOLDER_H_

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace winnow {

// Names the folder; its writer creates it, and the destructor removes it.
class BenchFolder {
 public:
  explicit BenchFolder(const std::filesystem::path& parent)
      : path_(parent / ("winnow-bench-" + std::to_string(getpid()))) {}
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  ~BenchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_ROOFS_BENCH_FOLDER_H_
