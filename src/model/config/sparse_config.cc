#include "model/config/sparse_config.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/ids.h"

namespace winnow {
namespace {

// Limits far above any checkpoint; what they make fits an int.
constexpr int64_t kMaxBlock = int64_t{1} << 12;
constexpr int64_t kMaxTokens = int64_t{1} << 24;

constexpr std::array<std::string_view, 8> kKnown = {
    "block_size",    "dense_len", "init_blocks", "kernel_size",
    "kernel_stride", "topk",      "use_nope",    "window_size"};

Status CheckNames(const JsonFields& fields) {
  for (const std::string& name : fields.Names()) {
    if (fields.IsNull(name) || std::ranges::count(kKnown, name) > 0) continue;
    return fields.Unexpected(
        name, fmt::format("absent (known are {})", fmt::join(kKnown, ", ")),
        ErrorCode::kUnsupported);
  }
  return Ok{};
}

Result<int64_t> ReadPowerOfTwo(const JsonFields& fields, std::string_view name,
                               IntegerRange range, int64_t otherwise) {
  ASSIGN_OR_RETURN(const int64_t value,
                   fields.Integer(name, {1, kMaxBlock}, otherwise));
  if (value >= range.min && value <= range.max &&
      std::has_single_bit(static_cast<uint64_t>(value))) {
    return value;
  }
  return fields.Unexpected(
      name, fmt::format("a power of two in [{}, {}]", range.min, range.max),
      ErrorCode::kUnsupported);
}

}  // namespace

Result<std::string> ReadSparseConfig(const JsonFields& fields) {
  RETURN_IF_ERROR(CheckNames(fields));
  ASSIGN_OR_RETURN(const bool use_nope, fields.Flag("use_nope", false));
  if (use_nope) {
    return fields.Unexpected("use_nope",
                             "false (keys are compressed after rotation)",
                             ErrorCode::kUnsupported);
  }
  ASSIGN_OR_RETURN(
      const int64_t block,
      ReadPowerOfTwo(fields, "block_size", {kPageTokens, kMaxBlock}, 64));
  ASSIGN_OR_RETURN(const int64_t kernel,
                   ReadPowerOfTwo(fields, "kernel_size", {1, kMaxBlock}, 32));
  ASSIGN_OR_RETURN(const int64_t stride,
                   ReadPowerOfTwo(fields, "kernel_stride",
                                  {1, std::min(kernel, block)}, 16));
  ASSIGN_OR_RETURN(const int64_t init,
                   fields.Integer("init_blocks", {0, kMaxBlock}, 1));
  ASSIGN_OR_RETURN(const int64_t window,
                   fields.Integer("window_size", {0, kMaxTokens}, 2048));
  if (window % block != 0) {
    return fields.Unexpected(
        "window_size", fmt::format("a multiple of block_size ({})", block),
        ErrorCode::kUnsupported);
  }
  // Of the blocks that are read, those of the window are besides topk, and the
  // first ones and the row's own within.
  ASSIGN_OR_RETURN(const int64_t topk,
                   fields.Integer("topk", {init + 1, kMaxBlock}, 64));
  ASSIGN_OR_RETURN(const int64_t dense_len,
                   fields.Integer("dense_len", {-1, kMaxTokens}, 8192));
  return fmt::format(
      "infllm-v2:kernel={},stride={},block={},budget={},sink={},recent={},"
      "dense_len={}",
      kernel, stride, block, topk * block + window, init * block, window,
      std::max<int64_t>(dense_len, 0));
}

}  // namespace winnow
