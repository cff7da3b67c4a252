#include "backend/cpu/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace winnow {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// A field of /proc/meminfo in bytes; kUnlimited where there is none.
int64_t MeminfoBytes(const std::string& field) {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  int64_t kib = 0;
  while (file >> name >> kib) {
    std::getline(file, unit);
    if (name == field) return kib * 1024;
  }
  return kUnlimited;
}

// The number in a control group file (version 2); `otherwise` where the file
// is missing or says "max".
int64_t GroupBytes(const char* path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t bytes = 0;
  return file >> bytes ? bytes : otherwise;
}

// What the control group is charged for files' pages that the kernel drops
// before it refuses memory.
int64_t GroupCacheBytes() {
  std::ifstream file("/sys/fs/cgroup/memory.stat");
  std::string name;
  int64_t bytes = 0, sum = 0;
  while (file >> name >> bytes) {
    if (name == "inactive_file" || name == "active_file") sum += bytes;
  }
  return sum;
}

}  // namespace

int64_t TotalHostBytes() {
  return std::min(MeminfoBytes("MemTotal:"),
                  GroupBytes("/sys/fs/cgroup/memory.max", kUnlimited));
}

int64_t AvailableHostBytes() {
  const int64_t limit = GroupBytes("/sys/fs/cgroup/memory.max", kUnlimited);
  const int64_t used = GroupBytes("/sys/fs/cgroup/memory.current", 0);
  const int64_t left =
      limit == kUnlimited ? limit : limit - used + GroupCacheBytes();
  return std::max<int64_t>(0, std::min(MeminfoBytes("MemAvailable:"), left));
}

}  // namespace winnow
