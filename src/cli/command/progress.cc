#include "cli/command/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace winnow {
namespace {

constexpr std::chrono::milliseconds kPrintInterval(100);

size_t TerminalColumns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) {
    return 80;
  }
  return size.ws_col;
}

}  // namespace

std::string FormatSeconds(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  if (whole < 100) return fmt::format("{} s", whole);
  return fmt::format("{} min {} s", whole / 60, whole % 60);
}

std::string FormatCount(int64_t count) {
  std::string digits = fmt::format("{}", count);
  const size_t begin = digits[0] == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > begin + 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

std::string FormatTokens(double tokens) {
  return FormatCount(static_cast<int64_t>(tokens));
}

Progress::Progress(std::string what, bool wanted)
    : what_(std::move(what)), enabled_(wanted && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { Clear(); }

void Progress::Clear() {
  if (!line_open_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  line_open_ = false;
}

void Progress::End() {
  Clear();
  enabled_ = false;
}

void Progress::Update(int64_t done, int64_t total, std::string_view detail) {
  const Clock::time_point now = Clock::now();
  if (!enabled_ || total <= 0 || now - last_print_ < kPrintInterval) return;
  last_print_ = now;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  std::string left;
  if (share > 0.01 && share < 1) {
    left = ", " + FormatSeconds(elapsed * (1 - share) / share) + " left";
  }
  std::string line =
      fmt::format("{} {:.0f} %{}{}", what_, 100 * share, left, detail);
  // A line that wraps could not be written over.
  line.resize(std::min(line.size(), TerminalColumns() - 1));
  std::fputs(("\r\033[K" + line).c_str(), stderr);
  std::fflush(stderr);
  line_open_ = true;
}

}  // namespace winnow
