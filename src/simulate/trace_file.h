// TraceWriter and TraceReader: a trace as a file.
#ifndef WINNOW_SIMULATE_TRACE_FILE_H_
#define WINNOW_SIMULATE_TRACE_FILE_H_

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "simulate/trace.h"

namespace winnow {

// The file begins with 8 bytes "wnwtrace", then has blocks. A block is its kind
// (one byte), its size and its hash (eight bytes each, the lowest first), and
// its bytes. The hash is XXH3 (64 bits) of kind, size and bytes. The first
// block is of kind 'h': the version, one byte, and the header. Then each
// request has one of kind 'r'. The last is of kind 'e': the number of requests,
// eight bytes. A reader knows its own version alone; version 1 had no scores.
// trace_bytes.h has the formats of header and request.
inline constexpr uint8_t kTraceVersion = 2;

// Builds a trace in memory: a few megabytes for hundreds of steps.
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

// Owns a trace's bytes and returns its requests in order. Every failure names
// the file. All returned values are in range.
class TraceReader {
 public:
  static Result<TraceReader> Open(const std::filesystem::path& path);
  // As Open, from bytes; `name` appears in messages.
  static Result<TraceReader> Parse(std::string name, std::string bytes);

  const TraceHeader& header() const { return header_; }
  int64_t num_requests() const { return num_requests_; }
  // Nothing behind the last request.
  Result<std::optional<TraceRequest>> Next();

 private:
  struct Block {
    char kind = 0;
    std::string_view bytes;
  };

  TraceReader(std::string name, std::string bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}
  Status ReadHeader();
  // Checks all blocks in order before the first request is returned, so a
  // truncated file fails at once.
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
