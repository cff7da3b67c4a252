// A trace as a file.
#ifndef WINNOW_SIMULATE_TRACE_FILE_H_
#define WINNOW_SIMULATE_TRACE_FILE_H_

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "simulate/trace.h"

namespace winnow {

// The file: 8 bytes "wnwtrace", then blocks. A block is its kind, one byte; the
// number of its bytes and their hash (XXH3, 64 bits, of kind, number and
// bytes), eight bytes each, the lowest first; and the bytes. There is first
// one of kind 'h': the version, one byte, and the header; then one of kind 'r'
// a request; last one of kind 'e': how many requests there are, eight bytes. A
// reader knows its own version alone: 1 had no scores. What header and request
// are made of says trace_bytes.h.
inline constexpr uint8_t kTraceVersion = 2;

// Puts a trace together in memory: a few megabytes for hundreds of steps.
class TraceWriter {
 public:
  explicit TraceWriter(const TraceHeader& header);

  void Add(const TraceRequest& request);
  // Ends the file and writes it, whole or not at all. REQUIRES: called once.
  Status Write(const std::filesystem::path& path);

  int64_t num_bytes() const { return static_cast<int64_t>(bytes_.size()); }
  int64_t num_requests() const { return num_requests_; }

 private:
  void AddBlock(char kind, const std::string& bytes);

  const TraceHeader header_;
  std::string bytes_;
  int64_t num_requests_ = 0;
};

// Owns a trace's bytes, and hands out its requests one after the other. Every
// failure names the file, and nothing that it hands out is out of range.
class TraceReader {
 public:
  static Result<TraceReader> Open(const std::filesystem::path& path);
  // The same of bytes that `name` stands for.
  static Result<TraceReader> Parse(std::string name, std::string bytes);

  const TraceHeader& header() const { return header_; }
  int64_t num_requests() const { return num_requests_; }
  // Nothing behind the last one.
  Result<std::optional<TraceRequest>> Next();

 private:
  struct Block {
    char kind = 0;
    std::string_view bytes;
  };

  TraceReader(std::string name, std::string bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}
  Status ReadHeader();
  // All blocks in order, before the first request is handed out: what is
  // truncated is told at once.
  Status CheckBlocks();
  Result<Block> NextBlock();
  Error Corrupt(std::string_view what) const;

  std::string name_;
  std::string bytes_;
  size_t next_ = 0;
  TraceHeader header_;
  int64_t num_requests_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_SIMULATE_TRACE_FILE_H_
