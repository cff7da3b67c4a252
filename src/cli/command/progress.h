// Progress: one line about long work, on standard error, if that is a terminal.
#ifndef WINNOW_CLI_COMMAND_PROGRESS_H_
#define WINNOW_CLI_COMMAND_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace winnow {

// A line that is overwritten: the work, its amount done and total, and the time
// left. Owns the line alone, and clears it in the destructor.
class Progress {
 public:
  // Prints if `wanted` and standard error is a terminal.
  Progress(std::string what, bool wanted);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  // Prints at most ten times a second.
  void Update(int64_t done, int64_t total) { Update(done, total, {}); }
  // `detail` follows the time left.
  void Update(int64_t done, int64_t total, std::string_view detail);
  void Clear();
  // Clears the line for good, so that other text can take its place.
  void End();

 private:
  using Clock = std::chrono::steady_clock;
  const std::string what_;
  bool enabled_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_print_;
  bool line_open_ = false;
};

// "0.4 s", "12 s", "3 min 20 s".
std::string FormatSeconds(double seconds);
// 1234567 -> "1,234,567".
std::string FormatCount(int64_t count);
std::string FormatTokens(double tokens);  // as a whole number

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_PROGRESS_H_
