#include "simulate/trace_file.h"

#include <utility>

#include "base/file.h"
#include "simulate/trace_bytes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace winnow {
namespace {

constexpr std::string_view kMagic = "wnwtrace";
constexpr char kHeaderKind = 'h', kRequestKind = 'r', kEndKind = 'e';
constexpr size_t kWordBytes = 8;
constexpr size_t kBlockHeadBytes = 1 + 2 * kWordBytes;
// What a process may be asked to hold.
constexpr size_t kMaxFileBytes = size_t{4} << 30;

std::string WordBytes(uint64_t word) {
  std::string bytes;
  for (size_t i = 0; i < kWordBytes; ++i) {
    bytes += static_cast<char>((word >> (8 * i)) & 0xff);
  }
  return bytes;
}

// REQUIRES: there are as many bytes.
uint64_t WordAt(std::string_view bytes, size_t offset) {
  uint64_t word = 0;
  for (size_t i = 0; i < kWordBytes; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[offset + i]);
    word |= uint64_t{byte} << (8 * i);
  }
  return word;
}

uint64_t BlockHash(char kind, std::string_view bytes) {
  const std::string head = kind + WordBytes(bytes.size());
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(),
                              XXH3_64bits(head.data(), head.size()));
}

}  // namespace

TraceWriter::TraceWriter(const TraceHeader& header)
    : header_(header), bytes_(kMagic) {
  AddBlock(kHeaderKind,
           static_cast<char>(kTraceVersion) + EncodeHeader(header));
}

void TraceWriter::AddBlock(char kind, const std::string& bytes) {
  bytes_ += kind;
  bytes_ += WordBytes(bytes.size());
  bytes_ += WordBytes(BlockHash(kind, bytes));
  bytes_ += bytes;
}

void TraceWriter::Add(const TraceRequest& request) {
  AddBlock(kRequestKind, EncodeRequest(header_, request));
  ++num_requests_;
}

Status TraceWriter::Write(const std::filesystem::path& path) {
  AddBlock(kEndKind, WordBytes(static_cast<uint64_t>(num_requests_)));
  return WriteFile(path, bytes_);
}

Error TraceReader::Corrupt(std::string_view what) const {
  return MakeError(ErrorCode::kCorrupt, "{}: {}", name_, what);
}

Result<TraceReader> TraceReader::Open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, kMaxFileBytes));
  return Parse(path.string(), std::move(bytes));
}

Result<TraceReader> TraceReader::Parse(std::string name, std::string bytes) {
  TraceReader reader(std::move(name), std::move(bytes));
  RETURN_IF_ERROR(reader.ReadHeader());
  RETURN_IF_ERROR(reader.CheckBlocks());
  return reader;
}

Result<TraceReader::Block> TraceReader::NextBlock() {
  const std::string_view rest = std::string_view(bytes_).substr(next_);
  if (rest.size() < kBlockHeadBytes) {
    return Corrupt(fmt::format("the trace is cut off at byte {}", next_));
  }
  const uint64_t num_bytes = WordAt(rest, 1);
  if (num_bytes > rest.size() - kBlockHeadBytes) {
    return Corrupt(
        fmt::format("the trace is cut off: the block at byte {} must have {} "
                    "bytes, has {}",
                    next_, num_bytes, rest.size() - kBlockHeadBytes));
  }
  const Block block = {
      .kind = rest[0],
      .bytes = rest.substr(kBlockHeadBytes, static_cast<size_t>(num_bytes))};
  if (BlockHash(block.kind, block.bytes) != WordAt(rest, 1 + kWordBytes)) {
    return Corrupt(
        fmt::format("the block at byte {} is not what was written", next_));
  }
  next_ += kBlockHeadBytes + block.bytes.size();
  return block;
}

Status TraceReader::ReadHeader() {
  if (!bytes_.starts_with(kMagic)) return Corrupt("is not a trace");
  next_ = kMagic.size();
  ASSIGN_OR_RETURN(const Block block, NextBlock());
  if (block.kind != kHeaderKind || block.bytes.empty()) {
    return Corrupt("the trace must begin with its header");
  }
  const auto version = static_cast<unsigned char>(block.bytes[0]);
  if (version != kTraceVersion) {
    return MakeError(ErrorCode::kUnsupported,
                     "{}: the trace's version must be {}, is {}", name_,
                     kTraceVersion, version);
  }
  std::optional<TraceHeader> header = DecodeHeader(block.bytes.substr(1));
  if (!header) return Corrupt("the trace's header is out of range");
  header_ = std::move(*header);
  return Ok{};
}

Status TraceReader::CheckBlocks() {
  const size_t first = next_;
  for (;;) {
    ASSIGN_OR_RETURN(const Block block, NextBlock());
    if (block.kind == kRequestKind) {
      ++num_requests_;
      continue;
    }
    if (block.kind != kEndKind || block.bytes.size() != kWordBytes ||
        WordAt(block.bytes, 0) != static_cast<uint64_t>(num_requests_)) {
      return Corrupt("the trace has a block that does not belong there");
    }
    break;
  }
  if (next_ != bytes_.size()) {
    return Corrupt(fmt::format("the trace must end at byte {}, has {}", next_,
                               bytes_.size()));
  }
  next_ = first;
  return Ok{};
}

Result<std::optional<TraceRequest>> TraceReader::Next() {
  ASSIGN_OR_RETURN(const Block block, NextBlock());
  if (block.kind == kEndKind) {
    next_ -= kBlockHeadBytes + block.bytes.size();
    return std::optional<TraceRequest>();
  }
  std::optional<TraceRequest> request = DecodeRequest(header_, block.bytes);
  if (!request) return Corrupt("a request of the trace is out of range");
  return request;
}

}  // namespace winnow
