#include "cli/fingerprint.h"

#include <algorithm>
#include <vector>

#include "base/file.h"

namespace winnow {
namespace {

constexpr size_t kSampleBytes = 4096;
constexpr size_t kNumSamples = 64;

void AddSamples(std::string_view bytes, Fingerprint* fingerprint) {
  fingerprint->Add(fmt::format("{}", bytes.size()));
  const size_t stride = std::max(bytes.size() / kNumSamples, kSampleBytes);
  for (size_t at = 0; at < bytes.size(); at += stride) {
    fingerprint->Add(bytes.substr(at, kSampleBytes));
  }
}

}  // namespace

void Fingerprint::AddBytes(std::string_view bytes) {
  for (const char byte : bytes) {
    state_ = (state_ ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  }
}

void Fingerprint::Add(std::string_view piece) {
  AddBytes(fmt::format("{}:", piece.size()));
  AddBytes(piece);
}

Result<uint64_t> FingerprintOfCheckpoint(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".json" || extension == ".safetensors") {
      paths.push_back(entry.path());
    }
  }
  if (error) {
    return MakeError(ErrorCode::kIo, "{}: cannot be read: {}", folder.string(),
                     error.message());
  }
  std::sort(paths.begin(), paths.end());
  Fingerprint fingerprint;
  for (const auto& path : paths) {
    ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    fingerprint.Add(path.filename().string());
    const auto bytes = file.bytes();
    AddSamples({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
               &fingerprint);
  }
  return fingerprint.value();
}

}  // namespace winnow
