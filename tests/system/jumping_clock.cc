// A wall clock that jumps: preloaded into a program (LD_PRELOAD), it shows that
// program a time of day so many seconds off as the file WINNOW_CLOCK_OFFSET has
// as a 64-bit number, at every moment. Clocks that do not jump stay as they
// are.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

using Offset = std::atomic<int64_t>;

const Offset* OffsetFile() {
  const char* path = std::getenv("WINNOW_CLOCK_OFFSET");
  const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const bytes =
      mmap(nullptr, sizeof(Offset), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return bytes == MAP_FAILED ? nullptr : static_cast<const Offset*>(bytes);
}

int64_t OffsetSeconds() {
  static const Offset* const offset = OffsetFile();
  return offset == nullptr ? 0 : offset->load();
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long status = syscall(SYS_clock_gettime, clock, now);
  const bool jumps = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (status == 0 && jumps) now->tv_sec += OffsetSeconds();
  return static_cast<int>(status);
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec exact{};
  clock_gettime(CLOCK_REALTIME, &exact);
  *now = {.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* now) noexcept {
  timespec exact{};
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now != nullptr) *now = exact.tv_sec;
  return exact.tv_sec;
}

}  // extern "C"
