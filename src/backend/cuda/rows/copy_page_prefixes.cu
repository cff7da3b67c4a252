#include <algorithm>

#include "backend/cuda/rows/page_ops.h"
#include "base/check.h"

namespace winnow {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxCopies = 64;  // a launch: what its parameters hold

struct CopyList {
  uint32_t from[kMaxCopies], to[kMaxCopies];
  int num_tokens[kMaxCopies];
};

struct HeadBlockBytes {
  int64_t kv_block_stride, slice, v_offset;
  int k_token, v_token;  // bytes of a token's key and value; v 0: none apart
};

__device__ void CopyWords(const std::byte* from, std::byte* to, int bytes) {
  for (int i = static_cast<int>(threadIdx.x) * 2; i < bytes;
       i += kThreads * 2) {
    *reinterpret_cast<uint16_t*>(to + i) =
        *reinterpret_cast<const uint16_t*>(from + i);
  }
}

// The first tokens of a slice's keys and values: a block a (copy, KV head).
__global__ void CopyPagePrefixesKernel(CopyList copies, HeadBlockBytes bytes,
                                       std::byte* layer_blocks) {
  const unsigned copy = blockIdx.x, head = blockIdx.y;
  const int64_t in_kv_block = head * bytes.slice;
  const std::byte* from =
      layer_blocks + copies.from[copy] * bytes.kv_block_stride + in_kv_block;
  std::byte* to =
      layer_blocks + copies.to[copy] * bytes.kv_block_stride + in_kv_block;
  const int num_tokens = copies.num_tokens[copy];
  CopyWords(from, to, num_tokens * bytes.k_token);
  CopyWords(from + bytes.v_offset, to + bytes.v_offset,
            num_tokens * bytes.v_token);
}

CopyList ListOf(std::span<const PageCopy> copies, int page_tokens) {
  CopyList list = {};
  for (size_t i = 0; i < copies.size(); ++i) {
    CHECK(copies[i].num_tokens >= 0 && copies[i].num_tokens <= page_tokens,
          "num_tokens={} page_tokens={}", copies[i].num_tokens, page_tokens);
    list.from[i] = copies[i].from.value();
    list.to[i] = copies[i].to.value();
    list.num_tokens[i] = copies[i].num_tokens;
  }
  return list;
}

}  // namespace

void EnqueueCopyPagePrefixes(CudaQueue& queue,
                             const CopyPagePrefixesArgs& args) {
  for (const LayerCache& layer : args.layers) {
    const HeadBlockFormat& format = layer.format;
    CHECK(format.scale_bytes == 0, "scale_bytes={}", format.scale_bytes);
    const HeadBlockBytes bytes = {
        .kv_block_stride = layer.kv_block_stride_bytes,
        .slice = format.head_block_bytes,
        .v_offset = format.v_in_k ? 0 : format.v_offset_bytes,
        .k_token = format.k_dim * DtypeBytes(format.k),
        .v_token = format.v_in_k ? 0 : format.v_dim * DtypeBytes(format.v),
    };
    for (size_t first = 0; first < args.copies.size(); first += kMaxCopies) {
      const auto copies = args.copies.subspan(
          first, std::min<size_t>(kMaxCopies, args.copies.size() - first));
      const dim3 grid(static_cast<unsigned>(copies.size()),
                      static_cast<unsigned>(layer.num_kv_heads));
      CopyPagePrefixesKernel<<<grid, kThreads, 0, queue.stream()>>>(
          ListOf(copies, format.page_tokens), bytes, layer.layer_blocks);
    }
  }
  queue.KeepLaunch("CopyPagePrefixes");
}

}  // namespace winnow
