#include "backend/cpu/select/row_scan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "backend/cpu/isa/float_types.h"
#include "backend/cpu/isa/prefetch_lines.h"
#include "backend/cpu/select/query_words.h"
#include "backend/cpu/select/summary_row.h"
#include "backend/cpu/step_rows.h"

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

bool IsBound(const SummaryRows& rows) {
  return rows.kind == Kind::kMinMax || rows.kind == Kind::kCuboid;
}

// What meets a row that has bounds: the negative parts of q [width] for the
// least and the positive ones for the greatest. A loop of vectors.
template <typename Q>
void SplitBySign(const Q* q, int64_t width, Q* parts) {
  using Bits = std::conditional_t<sizeof(Q) == 2, uint16_t, uint32_t>;
  constexpr int kSign = 8 * sizeof(Q) - 1;
  for (int64_t c = 0; c < width; ++c) {
    const auto bits = std::bit_cast<Bits>(q[c]);
    const auto negative = static_cast<Bits>(-(bits >> kSign));
    parts[c] = std::bit_cast<Q>(static_cast<Bits>(bits & negative));
    parts[width + c] = std::bit_cast<Q>(static_cast<Bits>(bits & ~negative));
  }
}

}  // namespace

RowScan::RowScan(const VectorKernels& kernels, ScanTask task,
                 ScratchCutter scratch)
    : task_(task),
      level_(task.table.layout.levels[static_cast<size_t>(task.level)]),
      width_(task.cache.format.k_dim * (IsBound(task.rows) ? 2 : 1)),
      row_stride_(width_),
      lane_scores_apart_(LaneScoresApart()),
      reduce_heads_(kernels.reduce_heads),
      near_bytes_(kernels.near_bytes) {
  const Dtype dtype =
      task.rows.kind == Kind::kKeys ? task.cache.format.k : task.rows.dtype;
  stored_row_bytes_ = task.rows.kind == Kind::kKeys ? width_ * DtypeBytes(dtype)
                                                    : level_.row_bytes;
  const bool paired = ChooseKernels(kernels, dtype);
  if (widen_float8_ != nullptr || widen_ != nullptr) {
    wide_row_bytes_ =
        width_ * DtypeBytes(paired ? Dtype::kBFloat16 : Dtype::kFloat32);
    wide_ = scratch.Take<std::byte>(CopiedSlots() * wide_row_bytes_);
  }
  gathers_ = task.rows.kind != Kind::kKeys &&
             level_.rows_per_segment % kHalfTokens != 0;
  if (gathers_) {
    gathered_ = scratch.Take<std::byte>(CopiedSlots() * stored_row_bytes_);
  }
  if (by_tile_) {
    pages_at_once_ = kTilePages;
  } else if (task.rows.kind != Kind::kKeys) {
    pages_at_once_ =
        std::clamp(level_.rows_per_segment / kTilePageTokens, 1, kTilePages);
  }
  CHECK(task.num_kv_heads <= kMaxItemHeads, "kv_heads={}", task.num_kv_heads);
  auto* transposed_k =
      scratch.Take<float>(QueryFloats(query_, width_) * kTilePageTokens);
  for (int head = 0; head < task.num_kv_heads; ++head) {
    UnitRows& rows = rows_[head];
    rows.num_rows = task.num_lanes;
    auto* words = scratch.Take<float>(QueryFloats(query_, width_) *
                                      (by_tile_ ? kUnitRows : task.num_lanes));
    (by_tile_ ? rows.tiled_q : rows.q) = words;
    tile_scores_[head] =
        scratch.Take<float>(int64_t{task.num_lanes} * kTileKeys);
    rows.transposed_k = transposed_k;
    PackQueries(head, words);
  }
}

bool RowScan::ChooseKernels(const VectorKernels& kernels, Dtype dtype) {
  const bool is_float8 = dtype == Dtype::kFloat8E4M3;
  const bool paired = (dtype == Dtype::kBFloat16 || is_float8) &&
                      kernels.score_bfloat16 != nullptr;
  score_ = kernels.score_float32;
  if (paired && task_.q.dtype != Dtype::kBFloat16) {
    // A gate's queries, and those of a model of another type, keep theirs.
    query_ = QueryWords::kHalvesApart;
    score_ = kernels.score_widened_bfloat16;
  } else if (paired) {
    query_ = kernels.bfloat16_query;
    if (is_float8 && kernels.score_float8 != nullptr && width_ % 64 == 0) {
      score_ = kernels.score_float8;
      row_stride_ = static_cast<int>(stored_row_bytes_);
      return true;
    }
    score_ = kernels.score_bfloat16;
    if (kernels.score_tile_bfloat16 != nullptr && width_ % 32 == 0) {
      score_ = kernels.score_tile_bfloat16;
      by_tile_ = true;
    }
  }
  if (dtype == Dtype::kFloat16 && kernels.score_float16 != nullptr) {
    score_ = kernels.score_float16;
    return false;
  }
  if (is_float8) {
    widen_float8_ = paired ? kernels.pair_float8 : kernels.widen_float8;
  } else if (!paired && dtype != Dtype::kFloat32) {
    widen_ = dtype == Dtype::kBFloat16 ? kernels.widen_bfloat16
                                       : kernels.widen_float16;
  }
  return paired;
}

void RowScan::Run(int64_t first, int64_t end,
                  const std::function<ScanSlots()>& next) {
  CHECK(first % kTilePageTokens == 0 && first < end, "slots=[{}, {})", first,
        end);
  ScanSlots slots = {this, first, end};
  Tiles of_turns[2];
  HalvesInTurn turn(near_bytes_, kHalfTokens * stored_row_bytes_,
                    pages_at_once_);
  FindTiles(slots, of_turns[0]);
  turn.Add(of_turns[0].all());
  for (int number = 0; slots.first < end; number = 1 - number) {
    const int64_t slot = slots.first;
    slots.first += kTileKeys;
    Tiles& ahead = of_turns[1 - number];
    const ScanSlots after = slots.first < end ? slots : next();
    ahead.count = 0;
    if (after.scan != nullptr) after.scan->FindTiles(after, ahead);
    turn.Add(ahead.all());
    Tiles& tiles = of_turns[number];
    const int num_slots = tiles.keys[0].end;
    const int num_pages = (num_slots + kTilePageTokens - 1) / kTilePageTokens;
    const bool in_place = ScoresGoInPlace(slot);
    PlaceScores(slot, in_place);
    turn.Attend(tiles.all(), [&](size_t head, int page, int end_page) {
      ScorePages(static_cast<int>(head), slot, tiles.keys[head], page,
                 std::min(end_page, num_pages));
    });
    for (int head = 0; head < tiles.count && !in_place; ++head) {
      CopyScores(head, slot, num_slots);
    }
  }
}

int64_t RowScan::LaneScoresApart() const {
  const ScanLane* lanes = task_.lanes;
  if (task_.reduced_lanes > 0) return 0;
  if (task_.num_lanes == 1) return kTileKeys;
  const int64_t apart = lanes[1].scores - lanes[0].scores;
  for (int i = 1; i < task_.num_lanes; ++i) {
    if (lanes[i].row != lanes[0].row ||
        lanes[i].scores - lanes[i - 1].scores != apart) {
      return 0;
    }
  }
  return apart;
}

bool RowScan::ScoresGoInPlace(int64_t slot) const {
  const int64_t first = slot - level_.lead;
  return lane_scores_apart_ > 0 && first >= 0 &&
         first + kTileKeys <= task_.lanes[0].num_scores;
}

void RowScan::PlaceScores(int64_t slot, bool in_place) {
  for (int head = 0; head < task_.num_kv_heads; ++head) {
    UnitRows& rows = rows_[head];
    rows.scores = in_place ? task_.LaneOf(head, 0).scores + (slot - level_.lead)
                           : tile_scores_[head];
    rows.scores_stride = in_place ? lane_scores_apart_ : kTileKeys;
  }
}

int64_t RowScan::CopiedSlots() const {
  return by_tile_ ? kTileKeys : kTilePageTokens;
}

void RowScan::PackQueries(int head, float* words) const {
  const int64_t k_dim = task_.cache.format.k_dim;
  const int64_t lane_floats = by_tile_ ? 1 : QueryFloats(query_, width_);
  const int64_t stride = by_tile_ ? kUnitRows : 1;
  WithFloatType(task_.q.dtype, [&](auto element) {
    using Q = decltype(element);
    Q parts[kMaxAttendDim];
    for (int i = 0; i < task_.num_lanes; ++i) {
      const ScanLane lane = task_.LaneOf(head, i);
      const Q* q = task_.q.Row<Q>(lane.row) + lane.q_head * task_.q.stride[1];
      if (width_ > k_dim) {
        SplitBySign(q, k_dim, parts);
        q = parts;
      }
      PackQuery(query_, q, width_, words + i * lane_floats, stride);
    }
  });
}

const std::byte* RowScan::StoredRow(int head, int64_t slot) const {
  const int kv_head = task_.first_kv_head + head;
  if (task_.rows.kind == Kind::kKeys) {
    return task_.cache.Slice(StepRows::KvBlock(task_.cache, task_.request,
                                               slot / kTilePageTokens),
                             kv_head) +
           slot % kTilePageTokens * stored_row_bytes_;
  }
  return task_.table.Row(task_.request, kv_head, task_.level,
                         slot - level_.lead);
}

void RowScan::FindTiles(const ScanSlots& slots, Tiles& to) const {
  to.count = task_.num_kv_heads;
  TileKeys& first = to.keys[0];
  first.k_dim = width_;
  first.k_stride = row_stride_;
  first.end =
      static_cast<int>(std::min<int64_t>(slots.end - slots.first, kTileKeys));
  // Halves lie together within a segment, or a page.
  const int64_t run_slots = task_.rows.kind == Kind::kKeys
                                ? kTilePageTokens
                                : level_.rows_per_segment;
  const int64_t half_bytes = kHalfTokens * stored_row_bytes_;
  for (int i = 0; i * kHalfTokens < first.end; ++i) {
    const int64_t slot = slots.first + i * kHalfTokens;
    first.k[i] = i > 0 && !gathers_ && slot % run_slots != 0
                     ? first.k[i - 1] + half_bytes
                     : StoredRow(0, slot);
  }
  // KV heads' are neighbours.
  const int64_t head_bytes = task_.rows.kind == Kind::kKeys
                                 ? task_.cache.format.head_block_bytes
                                 : task_.table.layout.head_bytes;
  for (int head = 1; head < to.count; ++head) {
    TileKeys& keys = to.keys[head];
    keys = first;
    for (int i = 0; i * kHalfTokens < keys.end; ++i) {
      keys.k[i] += head * head_bytes;
    }
  }
}

void RowScan::ScorePages(int head, int64_t slot, const TileKeys& keys, int page,
                         int end) const {
  PrefetchLinesToWrite(head, slot, page, end);
  if (wide_ == nullptr && !gathers_) {
    return score_(keys, page, end, rows_[head]);
  }
  TileKeys copies = keys;
  copies.ahead = {};
  // Page by page, so that copies stay in the first cache level; or all at once.
  const int pages_a_copy = by_tile_ ? end - page : 1;
  const int first_half = page * kPageHalves;
  const int num_slots = std::min(end * kTilePageTokens, keys.end);
  for (int first_page = page; first_page < end; first_page += pages_a_copy) {
    const int end_page = first_page + pages_a_copy;
    const int end_slot = std::min(end_page * kTilePageTokens, num_slots);
    for (int i = first_page * kPageHalves; i * kHalfTokens < end_slot; ++i) {
      const int first = i * kHalfTokens;
      const int copy = first - first_page * kTilePageTokens;
      if (gathers_) {
        copies.k[i] = GatherHalf(head, slot + first, num_slots - first,
                                 gathered_ + copy * stored_row_bytes_);
      }
      if (wide_ != nullptr) {
        std::byte* wide = wide_ + copy * wide_row_bytes_;
        WidenHalf(copies.k[i], keys.ahead.far[i - first_half], wide);
        copies.k[i] = wide;
      }
    }
    score_(copies, first_page, end_page, rows_[head]);
  }
}

void RowScan::PrefetchLinesToWrite(int head, int64_t slot, int page,
                                   int end) const {
  const int64_t first = slot - level_.lead;
  const int64_t begin = std::max<int64_t>(first + page * kTilePageTokens, 0);
  const int lanes_apart = std::max(task_.reduced_lanes, 1);
  for (int lane = 0; lane < task_.num_lanes; lane += lanes_apart) {
    const ScanLane to = task_.LaneOf(head, lane);
    const int64_t end_score =
        std::min(first + end * kTilePageTokens, to.num_scores);
    PrefetchToWrite(to.scores + begin, end_score - begin);
  }
}

const std::byte* RowScan::GatherHalf(int head, int64_t slot, int num_slots,
                                     std::byte* to) const {
  for (int i = 0; i < std::min(num_slots, kHalfTokens); ++i) {
    std::memcpy(to + i * stored_row_bytes_, StoredRow(head, slot + i),
                static_cast<size_t>(stored_row_bytes_));
  }
  return to;
}

void RowScan::WidenHalf(const std::byte* rows, const std::byte* ahead,
                        std::byte* wide) const {
  constexpr int kLineBytes = 64;
  constexpr int kRowsAtOnce = 4;
  static_assert(kHalfTokens % kRowsAtOnce == 0);
  for (int i = 0; i < kHalfTokens; i += kRowsAtOnce) {
    for (int64_t at = 0; at < kRowsAtOnce * stored_row_bytes_;
         at += kLineBytes) {
      PrefetchLine<CacheLevel::kFirst>(ahead + at);
    }
    if (widen_float8_ != nullptr) {
      widen_float8_({.first = rows,
                     .row_bytes = stored_row_bytes_,
                     .scale_at = Float8ScaleAt(width_),
                     .count = kRowsAtOnce,
                     .width = width_},
                    wide);
    } else {
      for (int row = 0; row < kRowsAtOnce; ++row) {
        widen_(
            reinterpret_cast<const uint16_t*>(rows + row * stored_row_bytes_),
            width_, reinterpret_cast<float*>(wide + row * wide_row_bytes_));
      }
    }
    rows += kRowsAtOnce * stored_row_bytes_;
    ahead += kRowsAtOnce * stored_row_bytes_;
    wide += kRowsAtOnce * wide_row_bytes_;
  }
}

void RowScan::CopyScores(int head, int64_t slot, int num_slots) const {
  const int64_t first = slot - level_.lead;
  const int64_t begin = std::max<int64_t>(first, 0);
  HeadRows of = HeadRowsOf(task_.group, task_.reduced_lanes);
  of.stride = kTileKeys;
  const int lanes_apart = std::max(task_.reduced_lanes, 1);
  for (int lane = 0; lane < task_.num_lanes; lane += lanes_apart) {
    const ScanLane to = task_.LaneOf(head, lane);
    of.count = std::min(first + num_slots, to.num_scores) - begin;
    if (of.count <= 0) continue;
    of.scores =
        tile_scores_[head] + int64_t{lane} * kTileKeys + (begin - first);
    if (task_.reduced_lanes == 0) {
      std::copy_n(of.scores, of.count, to.scores + begin);
    } else {
      reduce_heads_(of, to.scores + begin);
    }
  }
}

}  // namespace winnow
