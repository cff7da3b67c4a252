// Progress of long work, on standard error, where that is a terminal.
#ifndef WINNOW_CLI_COMMAND_PROGRESS_H_
#define WINNOW_CLI_COMMAND_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace winnow {

// One line that is written over itself: what, how much of how much, and the
// time left. Owns nothing but the line; clears it when it ends.
class Progress {
 public:
  // Prints where `wanted` and standard error is a terminal.
  Progress(std::string what, bool wanted);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  // At most ten lines a second are printed.
  void Update(int64_t done, int64_t total) { Update(done, total, {}); }
  // `detail` stands behind the time left.
  void Update(int64_t done, int64_t total, std::string_view detail);
  void Clear();
  // Clears it for good: something else is to stand where it stood.
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
std::string FormatTokens(double tokens);  // as a whole number of them

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_PROGRESS_H_
