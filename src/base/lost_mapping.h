// What a mapped file says when it is no longer there to be read: a file that is
// cut off while it is mapped, or whose disk fails, raises SIGBUS where it is
// read, wherever that is.
#ifndef WINNOW_BASE_LOST_MAPPING_H_
#define WINNOW_BASE_LOST_MAPPING_H_

#include <cstddef>
#include <filesystem>
#include <span>

namespace winnow {

// Most mappings that are known by name at once; those beyond are told without.
inline constexpr int kMaxNamedMappings = 1024;

// Names the mapping `bytes` until it is forgotten. Any thread.
void NameMapping(std::span<const std::byte> bytes,
                 const std::filesystem::path& path);
void ForgetMapping(std::span<const std::byte> bytes);

// From now on a lost mapping ends the process with `status`, and a line on
// standard error that begins with `prefix` and names the file; a SIGBUS of
// anything else ends it as before. Calls nothing but what a signal's handler
// may. `prefix` lives as long as the process.
void EndWhereMappingsAreLost(const char* prefix, int status);

}  // namespace winnow

#endif  // WINNOW_BASE_LOST_MAPPING_H_
