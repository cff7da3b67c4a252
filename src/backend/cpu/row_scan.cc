#include "backend/cpu/row_scan.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/float_types.h"
#include "backend/cpu/halves_in_turn.h"
#include "backend/cpu/step_rows.h"
#include "backend/cpu/summary_row.h"

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

bool IsBound(const SummaryRows& rows) {
  return rows.kind == Kind::kMinMax || rows.kind == Kind::kCuboid;
}

// What meets a row: q or, where that has bounds, the negative parts of q for
// the least and the positive ones for the greatest.
template <typename Number, typename Q>
void PackNumbers(const Q* q, int64_t k_dim, bool bounds, std::byte* to) {
  const auto store = [&](int64_t c, float x) {
    const Number number(x);
    std::memcpy(to + c * static_cast<int64_t>(sizeof(number)), &number,
                sizeof(number));
  };
  for (int64_t c = 0; c < k_dim; ++c) {
    const auto x = static_cast<float>(q[c]);
    store(c, bounds ? std::min(x, 0.0f) : x);
    if (bounds) store(k_dim + c, std::max(x, 0.0f));
  }
}

}  // namespace

RowScan::RowScan(const ReadKernels& kernels, ScanTask task,
                 ScratchCutter scratch)
    : task_(task),
      level_(task.table.layout.levels[static_cast<size_t>(task.level)]),
      width_(task.cache.format.k_dim * (IsBound(task.rows) ? 2 : 1)),
      reduce_heads_(kernels.reduce_heads),
      far_bytes_(kernels.far_bytes),
      near_bytes_(kernels.near_bytes) {
  const Dtype dtype =
      task.rows.kind == Kind::kKeys ? task.cache.format.k : task.rows.dtype;
  const bool is_float8 = dtype == Dtype::kFloat8E4M3;
  stored_row_bytes_ = task.rows.kind == Kind::kKeys ? width_ * DtypeBytes(dtype)
                                                    : level_.row_bytes;
  score_ = kernels.score_float32;
  paired_ = (dtype == Dtype::kBFloat16 || is_float8) &&
            task.q.dtype == Dtype::kBFloat16 &&
            kernels.score_bfloat16 != nullptr;
  if (paired_) {
    score_ = kernels.score_bfloat16;
    if (kernels.score_tile_bfloat16 != nullptr && width_ % 32 == 0) {
      score_ = kernels.score_tile_bfloat16;
      by_tile_ = true;
    }
  }
  if (is_float8) {
    widen_float8_ = paired_ ? kernels.pair_float8 : kernels.widen_float8;
  } else if (!paired_ && dtype != Dtype::kFloat32) {
    widen_ = dtype == Dtype::kBFloat16 ? kernels.widen_bfloat16
                                       : kernels.widen_float16;
  }
  if (widen_float8_ != nullptr || widen_ != nullptr) {
    wide_row_bytes_ =
        width_ * DtypeBytes(paired_ ? Dtype::kBFloat16 : Dtype::kFloat32);
    wide_ = scratch.Take<std::byte>(kTileKeys * wide_row_bytes_);
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
  HalvesInTurn turn(far_bytes_, near_bytes_, kHalfTokens * stored_row_bytes_,
                    kTilePages);
  int number = 0;
  for (int64_t slot = task_.first_slot; slot < task_.end_slot;
       slot += kTileKeys, number = 1 - number) {
    TileKeys& keys = of_tiles[number];
    const bool first = slot == task_.first_slot;
    if (!ReadsInPlace() || first) FindTile(slot, keys);
    if (ReadsInPlace()) {
      if (first) turn.Add({&keys, 1});
      const bool last = slot + kTileKeys >= task_.end_slot;
      RowScan* ahead = last ? next() : this;
      TileKeys& of_next = of_tiles[1 - number];
      const bool follows = ahead != nullptr && ahead->ReadsInPlace();
      if (follows) {
        ahead->FindTile(last ? ahead->task_.first_slot : slot + kTileKeys,
                        of_next);
      }
      turn.Add({&of_next, follows ? size_t{1} : 0});
      keys.ahead = turn.Take((keys.end + kHalfTokens - 1) / kHalfTokens);
    }
    score_(keys, rows_);
    CopyScores(slot, keys.end);
  }
}

void RowScan::PackQueries(float* words) const {
  const int64_t num_words = width_ / (paired_ ? 2 : 1);
  std::byte packed[kMaxReadDim * sizeof(float)];
  for (int i = 0; i < task_.num_lanes; ++i) {
    PackQuery(task_.lanes[i], packed);
    if (!by_tile_) {
      std::memcpy(words + i * num_words, packed,
                  static_cast<size_t>(num_words) * sizeof(float));
      continue;
    }
    for (int64_t word = 0; word < num_words; ++word) {
      std::memcpy(words + word * kUnitRows + i, packed + word * sizeof(float),
                  sizeof(float));
    }
  }
}

void RowScan::PackQuery(const ScanLane& lane, std::byte* words) const {
  const int64_t k_dim = task_.cache.format.k_dim;
  WithFloatType(task_.q.dtype, [&](auto element) {
    using Q = decltype(element);
    const Q* q = task_.q.Row<Q>(lane.row) + lane.q_head * task_.q.stride[1];
    if (paired_) {
      PackNumbers<BFloat16>(q, k_dim, width_ > k_dim, words);
    } else {
      PackNumbers<float>(q, k_dim, width_ > k_dim, words);
    }
  });
}

const std::byte* RowScan::StoredPage(int64_t slot) const {
  if (task_.rows.kind == Kind::kKeys) {
    return task_.cache.Slice(
        StepRows::Extent(task_.cache, task_.request, slot / kTilePageTokens),
        task_.kv_head);
  }
  return task_.table.Row(task_.request, task_.kv_head, task_.level,
                         slot - level_.lead);
}

const std::byte* RowScan::GatherPage(int64_t slot, std::byte* to) const {
  std::byte* row = to;
  const int64_t end = std::min(slot + kTilePageTokens, task_.end_slot);
  for (int64_t s = slot; s < end; ++s, row += level_.row_bytes) {
    std::memcpy(row, StoredPage(s), static_cast<size_t>(level_.row_bytes));
  }
  return to;
}

const std::byte* RowScan::Page(int64_t slot, int number) const {
  const std::byte* rows =
      gathers_
          ? GatherPage(slot, gathered_ + int64_t{number} * kTilePageTokens *
                                             level_.row_bytes)
          : StoredPage(slot);
  if (wide_ == nullptr) return rows;
  std::byte* wide = wide_ + number * kTilePageTokens * wide_row_bytes_;
  const int64_t slot_ahead = slot + kTileKeys;
  const bool fetches = !gathers_ && slot_ahead < task_.end_slot;
  WidenPage(rows, fetches ? StoredPage(slot_ahead) : rows, wide);
  return wide;
}

void RowScan::WidenPage(const std::byte* rows, const std::byte* ahead,
                        std::byte* wide) const {
  constexpr int kLineBytes = 64;
  for (int i = 0; i < kTilePageTokens; ++i) {
    for (int64_t at = 0; at < stored_row_bytes_; at += kLineBytes) {
      __builtin_prefetch(ahead + at);
    }
    if (widen_float8_ != nullptr) {
      widen_float8_(reinterpret_cast<const uint8_t*>(rows), width_,
                    Float8Scale(rows, width_), wide);
    } else {
      widen_(reinterpret_cast<const uint16_t*>(rows), width_,
             reinterpret_cast<float*>(wide));
    }
    rows += stored_row_bytes_;
    ahead += stored_row_bytes_;
    wide += wide_row_bytes_;
  }
}

void RowScan::FindTile(int64_t slot, TileKeys& keys) {
  keys.k_dim = keys.k_stride = width_;
  keys.end = static_cast<int>(
      std::clamp<int64_t>(task_.end_slot - slot, 0, kTileKeys));
  const int64_t row_bytes =
      wide_ != nullptr ? wide_row_bytes_ : stored_row_bytes_;
  for (int page = 0; page * kTilePageTokens < keys.end; ++page) {
    const std::byte* rows = Page(slot + page * kTilePageTokens, page);
    keys.k[2 * page] = rows;
    keys.k[2 * page + 1] = rows + kHalfTokens * row_bytes;
  }
}

void RowScan::CopyScores(int64_t slot, int num_slots) const {
  const int64_t first = slot - level_.lead;
  const int64_t begin = std::max<int64_t>(first, 0);
  HeadRows of = HeadRowsOf(task_.group, task_.reduced_lanes);
  of.stride = kTileKeys;
  for (int lane = 0; lane < task_.num_lanes; lane += task_.reduced_lanes) {
    const ScanLane& to = task_.lanes[lane];
    of.count = std::min(first + num_slots, to.num_scores) - begin;
    if (of.count <= 0) continue;
    of.scores = rows_.scores + int64_t{lane} * kTileKeys + (begin - first);
    if (of.num_heads == 1) {
      std::copy_n(of.scores, of.count, to.scores + begin);
    } else {
      reduce_heads_(of, to.scores + begin);
    }
  }
}

}  // namespace winnow
