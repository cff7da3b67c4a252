// Error reporting for mapped files that can no longer be read. If a mapped file
// is cut off, or its disk fails, any read of it raises SIGBUS.
#ifndef WINNOW_BASE_LOST_MAPPING_H_
#define WINNOW_BASE_LOST_MAPPING_H_

#include <cstddef>
#include <filesystem>
#include <span>

namespace winnow {

// The greatest number of named mappings. The loss of any other is reported
// without a name.
inline constexpr int kMaxNamedMappings = 1024;

// Names the mapping `bytes` until ForgetMapping. Any thread.
void NameMapping(std::span<const std::byte> bytes,
                 const std::filesystem::path& path);
void ForgetMapping(std::span<const std::byte> bytes);

// From now on a lost mapping ends the process with `status`. A line on standard
// error begins with `prefix` and names the file. Any other SIGBUS ends the
// process as before. The handler is async-signal-safe. REQUIRES: `prefix` lives
// as long as the process.
void EndWhereMappingsAreLost(const char* prefix, int status);

}  // namespace winnow

#endif  // WINNOW_BASE_LOST_MAPPING_H_
