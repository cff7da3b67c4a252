#include "backend/cpu/row_scan.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/fetch_ahead.h"
#include "backend/cpu/float_types.h"
#include "backend/cpu/step_rows.h"
#include "backend/cpu/summary_row.h"

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

bool IsBound(const SummaryRows& rows) {
  return rows.kind == Kind::kMinMax || rows.kind == Kind::kCuboid;
}

}  // namespace

RowScan::RowScan(const ReadKernels& kernels, ScanTask task,
                 ScratchCutter scratch)
    : task_(task),
      level_(task.table.layout.levels[static_cast<size_t>(task.level)]),
      width_(task.cache.format.k_dim * (IsBound(task.rows) ? 2 : 1)) {
  const Dtype dtype =
      task.rows.kind == Kind::kKeys ? task.cache.format.k : task.rows.dtype;
  score_ = kernels.score_float32;
  if (dtype == Dtype::kBFloat16 && task.q.dtype == dtype &&
      kernels.score_bfloat16 != nullptr) {
    paired_ = true;
    score_ = kernels.score_bfloat16;
    if (kernels.score_tile_bfloat16 != nullptr && width_ % 32 == 0) {
      score_ = kernels.score_tile_bfloat16;
      by_tile_ = true;
    }
  } else if (dtype == Dtype::kFloat8E4M3) {
    is_float8_ = true;
    wide_ = scratch.Take<float>(int64_t{kTileKeys} * width_);
  } else if (dtype != Dtype::kFloat32) {
    widen_ = dtype == Dtype::kBFloat16 ? kernels.widen_bfloat16
                                       : kernels.widen_float16;
    wide_ = scratch.Take<float>(int64_t{kTileKeys} * width_);
  }
  gathers_ = task.rows.kind != Kind::kKeys &&
             level_.rows_per_segment % kTilePageTokens != 0;
  if (gathers_) {
    gathered_ = scratch.Take<std::byte>(int64_t{kTileKeys} * level_.row_bytes);
  }
  const int64_t num_words = width_ / (paired_ ? 2 : 1);
  rows_.num_rows = task.num_lanes;
  auto* words =
      scratch.Take<float>(num_words * (by_tile_ ? kUnitRows : task.num_lanes));
  (by_tile_ ? rows_.tiled_q : rows_.q) = words;
  rows_.scores = scratch.Take<float>(int64_t{task.num_lanes} * kTileKeys);
  rows_.transposed_k = scratch.Take<float>(num_words * kTilePageTokens);
  PackQueries(words);
}

void RowScan::Run(const std::function<RowScan*()>& next) {
  TileKeys of_tiles[2];  // in turns
  int turn = 0;
  for (int64_t slot = task_.first_slot; slot < task_.end_slot;
       slot += kTileKeys, turn = 1 - turn) {
    TileKeys& keys = of_tiles[turn];
    if (!ReadsInPlace() || slot == task_.first_slot) FindTile(slot, keys);
    const bool last = slot + kTileKeys >= task_.end_slot;
    if (ReadsInPlace()) {
      RowScan* ahead = last ? next() : this;
      TileKeys& of_next = of_tiles[1 - turn];
      if (ahead == nullptr || !ahead->ReadsInPlace()) {
        of_next.begin = of_next.end = 0;
      } else {
        ahead->FindTile(last ? ahead->task_.first_slot : slot + kTileKeys,
                        of_next);
      }
      FetchAhead(of_next, keys);
    }
    score_(keys, rows_);
    CopyScores(slot, keys.end);
  }
}

void RowScan::PackQueries(float* words) {
  const int64_t k_dim = task_.cache.format.k_dim;
  const int64_t num_words = width_ / (paired_ ? 2 : 1);
  const int64_t word_stride = by_tile_ ? kUnitRows : 1;
  const int64_t lane_stride = by_tile_ ? 1 : num_words;
  const auto store = [&](float* lane, int64_t c, float x) {
    if (!paired_) {
      lane[c * word_stride] = x;
      return;
    }
    const BFloat16 half(x);
    std::memcpy(reinterpret_cast<std::byte*>(lane + c / 2 * word_stride) +
                    c % 2 * sizeof(half),
                &half, sizeof(half));
  };
  WithFloatType(task_.q.dtype, [&](auto element) {
    using Q = decltype(element);
    for (int i = 0; i < task_.num_lanes; ++i) {
      const ScanLane& place = task_.lanes[i];
      const Q* q = task_.q.Row<Q>(place.row) + place.q_head * task_.q.stride[1];
      float* lane = words + i * lane_stride;
      for (int64_t c = 0; c < k_dim; ++c) {
        const auto x = static_cast<float>(q[c]);
        if (width_ == k_dim) {
          store(lane, c, x);
        } else {
          store(lane, c, std::min(x, 0.0f));
          store(lane, k_dim + c, std::max(x, 0.0f));
        }
      }
    }
  });
}

const std::byte* RowScan::Page(int64_t slot, int number) {
  const std::byte* rows = nullptr;
  if (task_.rows.kind == Kind::kKeys) {
    rows = task_.cache.Slice(
        StepRows::Extent(task_.cache, task_.request, slot / kTilePageTokens),
        task_.kv_head);
  } else if (!gathers_) {
    rows = task_.table.Row(task_.request, task_.kv_head, task_.level,
                           slot - level_.lead);
  } else {
    std::byte* to =
        gathered_ + int64_t{number} * kTilePageTokens * level_.row_bytes;
    rows = to;
    const int64_t end = std::min(slot + kTilePageTokens, task_.end_slot);
    for (int64_t s = slot; s < end; ++s, to += level_.row_bytes) {
      std::memcpy(to,
                  task_.table.Row(task_.request, task_.kv_head, task_.level,
                                  s - level_.lead),
                  static_cast<size_t>(level_.row_bytes));
    }
  }
  if (wide_ == nullptr) return rows;
  float* wide = wide_ + int64_t{number} * kTilePageTokens * width_;
  if (is_float8_) {
    WidenFloat8Rows(rows, kTilePageTokens, width_, wide);
    return reinterpret_cast<const std::byte*>(wide);
  }
  widen_(reinterpret_cast<const uint16_t*>(rows),
         int64_t{kTilePageTokens} * width_, wide);
  return reinterpret_cast<const std::byte*>(wide);
}

void RowScan::FindTile(int64_t slot, TileKeys& keys) {
  keys.k_dim = keys.k_stride = width_;
  keys.end = static_cast<int>(
      std::clamp<int64_t>(task_.end_slot - slot, 0, kTileKeys));
  const int64_t row_bytes = wide_ != nullptr
                                ? width_ * static_cast<int64_t>(sizeof(float))
                            : task_.rows.kind == Kind::kKeys
                                ? width_ * DtypeBytes(task_.cache.format.k)
                                : level_.row_bytes;
  for (int page = 0; page * kTilePageTokens < keys.end; ++page) {
    const std::byte* rows = Page(slot + page * kTilePageTokens, page);
    keys.k[2 * page] = rows;
    keys.k[2 * page + 1] = rows + kHalfTokens * row_bytes;
  }
}

void RowScan::CopyScores(int64_t slot, int num_slots) const {
  for (int lane = 0; lane < task_.num_lanes; ++lane) {
    const ScanLane& to = task_.lanes[lane];
    const int64_t first = slot - level_.lead;
    const int64_t begin = std::max<int64_t>(first, 0);
    const int64_t end = std::min(first + num_slots, to.num_scores);
    if (begin >= end) continue;
    std::copy_n(rows_.scores + int64_t{lane} * kTileKeys + (begin - first),
                end - begin, to.scores + begin);
  }
}

}  // namespace winnow
