#include "backend/cpu/rows/copy_page_prefixes.h"

#include <cstring>

namespace winnow {
namespace {

// Copies the first `num_tokens` keys and values of one slice.
void CopyHeadBlock(const HeadBlockFormat& format, int num_tokens,
                   const std::byte* from, std::byte* to) {
  CHECK(format.scale_bytes == 0, "scale_bytes={}", format.scale_bytes);
  const auto k_bytes = static_cast<size_t>(num_tokens) *
                       static_cast<size_t>(format.k_dim * DtypeBytes(format.k));
  std::memcpy(to, from, k_bytes);
  if (format.v_in_k) return;
  const int64_t v_offset = format.v_offset_bytes;
  const auto v_bytes = static_cast<size_t>(num_tokens) *
                       static_cast<size_t>(format.v_dim * DtypeBytes(format.v));
  std::memcpy(to + v_offset, from + v_offset, v_bytes);
}

}  // namespace

void MovePages(const CopyPagePrefixesArgs& args, ThreadPool& pool) {
  const auto num_layers = static_cast<int64_t>(args.layers.size());
  const auto num_copies = static_cast<int64_t>(args.copies.size());
  pool.ParallelFor(num_layers * num_copies, [&](int64_t item, int) {
    const LayerCache& layer =
        args.layers[static_cast<size_t>(item / num_copies)];
    const PageCopy& copy = args.copies[static_cast<size_t>(item % num_copies)];
    CHECK(copy.num_tokens >= 0 && copy.num_tokens <= layer.format.page_tokens,
          "num_tokens={} page_tokens={}", copy.num_tokens,
          layer.format.page_tokens);
    for (int head = 0; head < layer.num_kv_heads; ++head) {
      CopyHeadBlock(layer.format, copy.num_tokens,
                    layer.Slice(copy.from.value(), head),
                    layer.Slice(copy.to.value(), head));
    }
  });
}

}  // namespace winnow
