#include "model/weights/digest_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

namespace winnow {
namespace {

using Json = nlohmann::json;
using DigestLines = std::map<std::string, std::string>;

// What a line says, and how: another version's are not read.
constexpr int kDigestVersion = 1;
constexpr size_t kMaxMemoryBytes = size_t{4} << 20;
constexpr size_t kMaxLines = 1000;

Json EntryOf(const std::string& path, const FileStamp& stamp,
             const std::string& hash) {
  return {{"version", kDigestVersion},      {"path", path},
          {"device", stamp.device},         {"inode", stamp.inode},
          {"bytes", stamp.num_bytes},       {"modified_ns", stamp.modified_ns},
          {"changed_ns", stamp.changed_ns}, {"xxh3", hash}};
}

std::string Dump(const Json& entry) {
  return entry.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A line with a hash of itself: one of flipped bits is none.
std::string LineOf(Json entry) {
  ThreadPool pool(1);
  const std::string text = Dump(entry);
  entry["line"] = HexOf(HashContent(std::as_bytes(std::span(text)), pool, {}));
  return Dump(entry);
}

// The file's path as every process spells it.
std::string KeyOf(const std::filesystem::path& file) {
  std::error_code error;
  const auto canonical = std::filesystem::canonical(file, error);
  return error ? std::string() : canonical.string();
}

// Nobody else may have written to it.
bool IsOwn(const std::filesystem::path& file) {
  struct stat info;
  return lstat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Whole lines of this version, by path.
DigestLines ReadLines(const std::filesystem::path& file) {
  DigestLines lines;
  if (file.empty() || !IsOwn(file)) return lines;
  const Result<std::string> content = ReadFile(file, kMaxMemoryBytes);
  if (!content.ok()) return lines;
  size_t begin = 0;
  while (begin < content->size()) {
    const size_t end = std::min(content->find('\n', begin), content->size());
    std::string line = content->substr(begin, end - begin);
    begin = end + 1;
    Json entry = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object() || !entry.value("path", Json()).is_string()) {
      continue;
    }
    const std::string path = entry["path"];
    entry.erase("line");
    if (LineOf(std::move(entry)) == line) lines[path] = std::move(line);
  }
  return lines;
}

// Through a new file that only its owner may read, and a rename.
void WriteLines(const std::filesystem::path& file, const DigestLines& lines) {
  std::string content;
  for (const auto& [path, line] : lines) content += line + "\n";
  std::string temporary = file.string() + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t written = write(fd, content.data(), content.size());
  close(fd);
  const bool is_whole = written == static_cast<ssize_t>(content.size());
  if (!is_whole || rename(temporary.c_str(), file.c_str()) != 0) {
    unlink(temporary.c_str());
  }
}

}  // namespace

DigestMemory::DigestMemory(std::filesystem::path file)
    : file_(std::move(file)), lines_(ReadLines(file_)) {}

std::filesystem::path DigestMemory::UsersFile() {
  for (const auto& [name, below] :
       {std::pair("XDG_CACHE_HOME", ""), std::pair("HOME", ".cache")}) {
    const char* const value = std::getenv(name);
    // The XDG base directory specification: a relative path is ignored.
    if (value == nullptr || *value != '/') continue;
    return std::filesystem::path(value) / below / "winnow" / "weights.jsonl";
  }
  return {};
}

std::optional<ContentHash> DigestMemory::Find(const std::filesystem::path& file,
                                              const FileStamp& stamp) const {
  const std::string path = KeyOf(file);
  const auto found = lines_.find(path);
  if (path.empty() || found == lines_.end()) return std::nullopt;
  const Json entry = Json::parse(found->second, nullptr, false);
  const Json hash = entry.value("xxh3", Json());
  if (!hash.is_string() ||
      found->second != LineOf(EntryOf(path, stamp, hash))) {
    return std::nullopt;
  }
  return HashFromHex(hash.get<std::string>());
}

void DigestMemory::Remember(const std::filesystem::path& file,
                            const FileStamp& stamp, const ContentHash& hash) {
  const std::string path = KeyOf(file);
  if (path.empty()) return;
  const std::string line = LineOf(EntryOf(path, stamp, HexOf(hash)));
  lines_[path] = line;
  unsaved_[path] = line;
}

void DigestMemory::Save() {
  if (file_.empty() || unsaved_.empty()) return;
  DigestLines lines = ReadLines(file_);
  // A folder of models comes and goes; the file stays small.
  if (lines.size() + unsaved_.size() > kMaxLines) lines.clear();
  for (auto& [path, line] : unsaved_) lines[path] = std::move(line);
  unsaved_.clear();
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  WriteLines(file_, lines);
}

}  // namespace winnow
