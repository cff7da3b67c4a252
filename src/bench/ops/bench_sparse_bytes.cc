// What BenchSparse's ops read and multiply.
#include <algorithm>
#include <bit>

#include "backend/contract/token_runs.h"
#include "bench/ops/bench_sparse.h"

namespace winnow {

int64_t BenchSparse::scored_tokens() const {
  const int64_t context = shape_.context_tokens;
  return has_clusters() ? NumClusteredTokens(program_, context) : context;
}

double BenchSparse::summary_bytes() const {
  // Of every KV head, the rows that are visible.
  if (scores_keys()) return kv_bytes() / 2;
  double bytes = 0;
  for (size_t level = 0; level < 2; ++level) {
    const int64_t num_rows = NumVisibleRows(
        level == 0 ? program_.rows : program_.normalizer, scored_tokens());
    bytes += static_cast<double>(num_rows) * shape_.num_kv_heads *
             selector_.summaries.layout.levels[level].row_bytes;
  }
  if (has_gate()) {
    bytes += static_cast<double>(selector_.gate.q.num_elements()) *
             static_cast<double>(sizeof(float));
  }
  return bytes;
}

double BenchSparse::list_bytes() const {
  int64_t num_picks = 0;
  for (int64_t list = 0; list < lists_.NumLists(0); ++list) {
    num_picks += std::max(0, lists_.NumPicks(0, list));
  }
  return static_cast<double>(num_picks) * sizeof(Pick);
}

double BenchSparse::select_flops() const {
  const int heads = has_gate() ? shape_.num_kv_heads : shape_.num_q_heads;
  double flops = 0;
  for (const SummaryRows* rows : {&program_.rows, &program_.normalizer}) {
    if (rows->kind == SummaryRows::Kind::kNone) continue;
    const bool bounds = rows->kind == SummaryRows::Kind::kMinMax ||
                        rows->kind == SummaryRows::Kind::kCuboid;
    flops += 2.0 * (bounds ? 2 : 1) * shape_.head_dim * heads *
             static_cast<double>(NumVisibleRows(*rows, scored_tokens()));
  }
  if (!has_gate()) return flops;
  return flops + 2.0 * static_cast<double>(selector_.gate.q.num_elements());
}

double BenchSparse::picked_bytes() const {
  // A list is read once, by all heads that it serves.
  int64_t tokens = 0;
  for (int64_t list = 0; list < lists_.NumLists(0); ++list) {
    for (int64_t i = 0; i < lists_.NumPicks(0, list); ++i) {
      tokens += std::popcount(lists_.List(0, list)[i].tokens);
    }
  }
  return static_cast<double>(tokens) * 2 * shape_.head_dim *
         DtypeBytes(shape_.dtypes.kv);
}

std::vector<Bytes> BenchSparse::Summaries() const {
  if (scores_keys()) {
    std::vector<Bytes> keys;
    const auto head_block_bytes =
        static_cast<size_t>(cache_.format.head_block_bytes);
    const auto key_bytes = static_cast<size_t>(cache_.format.v_offset_bytes);
    const auto layer_bytes = static_cast<size_t>(layer_kv_bytes_);
    for (size_t at = 0; at < layer_bytes; at += head_block_bytes) {
      keys.emplace_back(cache_.layer_blocks + at, key_bytes);
    }
    return keys;
  }
  return {
      {selector_.summaries.rows, static_cast<size_t>(layer_summary_bytes_)}};
}

std::vector<Bytes> BenchSparse::Picked() const {
  std::vector<Bytes> halves;
  const HeadBlockFormat& format = cache_.format;
  const auto key_bytes =
      static_cast<size_t>(format.v_offset_bytes / kPageTokens);
  const int64_t num_lists = lists_.NumLists(0);
  for (int64_t list = 0; list < num_lists; ++list) {
    const auto kv_head =
        static_cast<int>(list * shape_.num_kv_heads / num_lists);
    for (int64_t i = 0; i < lists_.NumPicks(0, list); ++i) {
      const Pick& pick = lists_.List(0, list)[i];
      const std::byte* slice =
          cache_.Slice(cache_.page_table.Row(0)[pick.page], kv_head);
      // Runs of tokens, of K and of V.
      ForEachRun(pick.tokens, [&](int first, int count) {
        const size_t bytes = static_cast<size_t>(count) * key_bytes;
        const std::byte* k = slice + static_cast<size_t>(first) * key_bytes;
        halves.emplace_back(k, bytes);
        halves.emplace_back(k + format.v_offset_bytes, bytes);
      });
    }
  }
  return halves;
}

double BenchSparse::estimated_bytes() const {
  int64_t clusters = 0;
  for (int64_t list = 0; list < lists_.NumLists(0); ++list) {
    clusters += lists_.NumEstimates(0, list);
  }
  return static_cast<double>(clusters) * 2 * shape_.head_dim *
         DtypeBytes(program_.rows.dtype);
}

bool BenchSparse::has_clusters() const {
  return program_.rows.kind == SummaryRows::Kind::kClusters;
}

double BenchSparse::indexed_bytes() const {
  return estimates() ? kv_bytes() : kv_bytes() / 2;
}

double BenchSparse::index_flops() const {
  const SummaryRows& rows = program_.rows;
  const auto num_segments =
      static_cast<double>(shape_.context_tokens / rows.tokens);
  const int num_clusters = rows.tokens / rows.stride;
  return num_segments * shape_.num_kv_heads * 2.0 * shape_.head_dim *
         rows.tokens * num_clusters * (program_.index.iterations + 1);
}

double BenchSparse::kv_bytes() const {
  return static_cast<double>(shape_.context_tokens) * 2 * shape_.num_kv_heads *
         shape_.head_dim * DtypeBytes(shape_.dtypes.kv);
}

}  // namespace winnow
