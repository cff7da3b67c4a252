#include "backend/cpu/attend/attend_estimates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "backend/contract/cluster_segment.h"
#include "backend/cpu/attend/attend_workspace.h"
#include "backend/cpu/attend/softmax_state.h"
#include "backend/cpu/isa/float_types.h"
#include "backend/cpu/isa/prefetch_lines.h"

namespace winnow {
namespace {

constexpr int64_t kUnitClusters = kTileKeys;
// Vectors take channels by so many.
constexpr int64_t kPad = 16;

const LayerSelector& SelectorOf(const StepRows& rows, const AttendArgs& args,
                                int64_t row) {
  const int index = rows.selector(rows.request(row));
  return args.sources[0].selectors[static_cast<size_t>(index)];
}

// Finds what is kept of a KV head's clusters, which come in ascending order.
class KeptClusters {
 public:
  KeptClusters(const LayerSelector& selector, int request, int kv_head,
               int v_dim)
      : table_(selector.summaries),
        rows_(selector.program->rows),
        request_(request),
        kv_head_(kv_head),
        key_bytes_(table_.layout.levels[0].row_bytes),
        value_bytes_(int64_t{v_dim} * DtypeBytes(rows_.dtype)) {}

  // What follows is of cluster `row`.
  void MoveTo(int64_t row) {
    in_segment_ = row - segment_.first_row;
    if (in_segment_ >= 0 && in_segment_ < segment_.num_clusters) return;
    segment_ = ClusterSegmentOf(table_, rows_, request_, kv_head_,
                                row / (rows_.tokens / rows_.stride));
    in_segment_ = row - segment_.first_row;
    keys_ = table_.Row(request_, kv_head_, 0, segment_.first_row);
    values_ = ClusterValue(table_, request_, kv_head_, segment_.first_row,
                           value_bytes_);
  }
  const std::byte* key() const { return keys_ + in_segment_ * key_bytes_; }
  const std::byte* value() const {
    return values_ + in_segment_ * value_bytes_;
  }
  size_t size() const {
    return segment_.TokensOf(static_cast<int>(in_segment_)).size();
  }
  void Prefetch() const {
    PrefetchToRead<CacheLevel::kFirst>(key(), key_bytes_);
    PrefetchToRead<CacheLevel::kFirst>(value(), value_bytes_);
    PrefetchToRead<CacheLevel::kFirst>(segment_.ends + in_segment_, 1);
  }

 private:
  const SummaryTable& table_;
  const SummaryRows& rows_;
  const int request_;
  const int kv_head_;
  const int64_t key_bytes_;
  const int64_t value_bytes_;
  ClusterSegment segment_;
  int64_t in_segment_ = 0;
  const std::byte* keys_ = nullptr;    // of the segment
  const std::byte* values_ = nullptr;  // of the segment
};

}  // namespace

int64_t EstimateAttention::Width(const LayerCache& cache) const {
  return cache.format.k_dim + kPad;
}

void EstimateAttention::Attend(const LayerStep& step, const AttendArgs& args,
                               const LayerCache& cache) {
  CHECK(args.sources.size() == 1 && !args.lse.empty() && args.scale > 0,
        "sources={} lse {} scale={}", args.sources.size(), ToString(args.lse),
        args.scale);
  CHECK(args.out.dtype == Dtype::kFloat32 && args.out.dim(0) == step.num_rows &&
            args.out.dim(2) == cache.format.v_dim,
        "out {} rows={} v_dim={}", ToString(args.out), step.num_rows,
        cache.format.v_dim);
  if (!step.has_decode_rows) return;
  const PickLists& lists = args.sources[0].picks;
  const StepRows rows(step);
  const int64_t num_heads = args.q.dim(1);
  const int64_t num_parts = (num_heads + kUnitRows - 1) / kUnitRows;
  // Lists are at most as many as heads: an item a list and sixteen heads.
  pool_.ParallelFor(lists.num_rows() * num_heads * num_parts, [&](int64_t item,
                                                                  int worker) {
    const int64_t row = lists.first_row + item / num_parts / num_heads;
    const int64_t list = item / num_parts % num_heads;
    const int64_t num_lists = lists.NumLists(row);
    if (list >= num_lists || rows.is_prompt(row)) return;
    const int64_t first = list * num_heads / num_lists;
    const int64_t end = (list + 1) * num_heads / num_lists;
    const int64_t begin = first + item % num_parts * kUnitRows;
    if (begin >= end) return;
    ReadHeads({.rows = rows,
               .args = args,
               .cache = cache,
               .row = row,
               .list = list,
               .first_head = begin,
               .num_heads =
                   static_cast<int>(std::min<int64_t>(kUnitRows, end - begin))},
              scratch_[static_cast<size_t>(worker)]);
  });
}

void EstimateAttention::ReadHeads(const Heads& heads, Scratch& scratch) const {
  const int dim = heads.cache.format.v_dim;
  const int64_t floats = SoftmaxState::NumFloats(dim);
  const int64_t width = Width(heads.cache);
  const int count = heads.num_heads;
  scratch.states.resize(static_cast<size_t>(3 * count * floats));
  scratch.q.assign(static_cast<size_t>(kUnitRows * width), 0.0f);
  WithFloatType(heads.args.q.dtype, [&](auto element) {
    using Q = decltype(element);
    for (int i = 0; i < count; ++i) {
      const Q* q = heads.args.q.Row<Q>(heads.row) +
                   (heads.first_head + i) * heads.args.q.stride[1];
      float* to = scratch.q.data() + i * width;
      for (int c = 0; c < heads.cache.format.k_dim; ++c) {
        to[c] = static_cast<float>(q[c]);
      }
      to[heads.cache.format.k_dim] = 1;
    }
  });
  // States of units, then of groups, then of the row's heads.
  const auto state = [&](int kind, int head) {
    return SoftmaxState(
        scratch.states.data() + (int64_t{kind} * count + head) * floats, dim);
  };
  for (int head = 0; head < count; ++head) {
    state(1, head).MarkEmpty();
    state(2, head).MarkEmpty();
  }
  const PickLists& lists = heads.args.sources[0].picks;
  const int64_t num_clusters = lists.NumEstimates(heads.row, heads.list);
  for (int64_t first = 0, unit = 0; first < num_clusters; ++unit) {
    const int64_t in_unit = std::min(kUnitClusters, num_clusters - first);
    Gather(heads, first, in_unit, scratch);
    AttendUnit(heads, in_unit, scratch.states.data(), scratch);
    first += in_unit;
    const bool closes = first == num_clusters || (unit + 1) % kGroupUnits == 0;
    for (int head = 0; head < count; ++head) {
      state(1, head).Merge(state(0, head));
      if (!closes) continue;
      state(2, head).Merge(state(1, head));
      state(1, head).MarkEmpty();
    }
  }
  for (int head = 0; head < count; ++head) {
    Write(heads, head, state(2, head).values());
  }
}

void EstimateAttention::Widen(Dtype dtype, const std::byte* from, int64_t count,
                              float* to) const {
  if (kernels_ != nullptr && DtypeBytes(dtype) == 2 && count % 16 == 0) {
    const WidenKernel widen = dtype == Dtype::kBFloat16
                                  ? kernels_->widen_bfloat16
                                  : kernels_->widen_float16;
    return widen(reinterpret_cast<const uint16_t*>(from), count, to);
  }
  WithFloatType(dtype, [&](auto element) {
    const auto* numbers = reinterpret_cast<const decltype(element)*>(from);
    for (int64_t c = 0; c < count; ++c) to[c] = static_cast<float>(numbers[c]);
  });
}

void EstimateAttention::Gather(const Heads& heads, int64_t first, int64_t count,
                               Scratch& scratch) const {
  constexpr int64_t kClustersAhead = 16;
  const LayerSelector& selector = SelectorOf(heads.rows, heads.args, heads.row);
  const SummaryRows& rows = selector.program->rows;
  const HeadBlockFormat& format = heads.cache.format;
  const int request = heads.rows.request(heads.row);
  const auto kv_head = static_cast<int>(
      heads.first_head / (heads.args.q.dim(1) / heads.cache.num_kv_heads));
  const int64_t width = Width(heads.cache);
  const PickLists& lists = heads.args.sources[0].picks;
  const int32_t* list = lists.Estimates(heads.row, heads.list) + first;
  const int64_t num_left = lists.NumEstimates(heads.row, heads.list) - first;
  if (scratch.width != width) {
    scratch.width = width;
    scratch.keys.assign(static_cast<size_t>(kUnitClusters * width), 0.0f);
  }
  scratch.values.resize(static_cast<size_t>(kUnitClusters * format.v_dim));
  if (scratch.log_scale != heads.args.scale ||
      std::ssize(scratch.logs) <= rows.tokens) {
    scratch.log_scale = heads.args.scale;
    scratch.logs.assign(static_cast<size_t>(rows.tokens) + 1,
                        std::numeric_limits<float>::quiet_NaN());
  }
  KeptClusters kept(selector, request, kv_head, format.v_dim);
  KeptClusters ahead = kept;
  for (int64_t i = 0; i < count; ++i) {
    if (i + kClustersAhead < num_left) {
      ahead.MoveTo(list[i + kClustersAhead]);
      ahead.Prefetch();
    }
    kept.MoveTo(list[i]);
    float* key = scratch.keys.data() + i * width;
    Widen(rows.dtype, kept.key(), format.k_dim, key);
    const size_t size = kept.size();
    float& log = scratch.logs[size];
    if (std::isnan(log)) {
      log = std::log(static_cast<float>(size)) / heads.args.scale;
    }
    key[format.k_dim] = log;
    Widen(rows.dtype, kept.value(), format.v_dim,
          scratch.values.data() + i * format.v_dim);
  }
}

void EstimateAttention::AttendUnit(const Heads& heads, int64_t count,
                                   float* states, Scratch& scratch) const {
  const int64_t width = Width(heads.cache);
  const int v_dim = heads.cache.format.v_dim;
  if (kernels_ == nullptr || width % kPad != 0 || v_dim % kPad != 0 ||
      width > kMaxAttendDim || v_dim > kMaxAttendDim) {
    return AttendUnitScalar(heads, count, states, scratch);
  }
  scratch.kernel.resize(static_cast<size_t>(
      kUnitRows * (2 * kTileKeys + v_dim + 21) + width * kTilePageTokens));
  // Every head sees the whole unit, which may be no full vector.
  std::array<int32_t, kUnitRows> first_key, last_key;
  first_key.fill(0);
  last_key.fill(static_cast<int32_t>(count - 1));
  UnitRows rows;
  rows.num_rows = heads.num_heads;
  rows.q = scratch.q.data();
  rows.first_key = first_key.data();
  rows.last_key = last_key.data();
  rows.scale_log2 = heads.args.scale * std::numbers::log2e_v<float>;
  rows.scores = scratch.kernel.data();
  rows.weights = rows.scores + kUnitRows * kTileKeys;
  rows.values = rows.weights + kUnitRows * kTileKeys;
  rows.maximum = rows.values + kUnitRows * v_dim;
  rows.sum = rows.maximum + 2 * kUnitRows;
  rows.lane_sums = rows.sum + kUnitRows;
  rows.kept = rows.lane_sums + kUnitRows * 16;
  rows.transposed_k = rows.kept + 2 * kUnitRows;
  TileKeys keys;
  keys.k_dim = keys.k_stride = static_cast<int>(width);
  keys.v_dim = keys.v_stride = v_dim;
  keys.end = static_cast<int>(count);
  // Both halves of a page: kernels look at all of one that has a key.
  const int num_pages = (keys.end + kTilePageTokens - 1) / kTilePageTokens;
  for (int half = 0; half < num_pages * kPageHalves; ++half) {
    keys.k[half] = reinterpret_cast<const std::byte*>(
        scratch.keys.data() + half * kHalfTokens * width);
    keys.v[half] = reinterpret_cast<const std::byte*>(
        scratch.values.data() + half * kHalfTokens * v_dim);
  }
  kernels_->unit_float32(keys, 0, num_pages, rows);
  for (int head = 0; head < heads.num_heads; ++head) {
    const SoftmaxState state(states + head * SoftmaxState::NumFloats(v_dim),
                             v_dim);
    std::copy_n(rows.values + head * v_dim, v_dim, state.values());
    state.maximum() = rows.maximum[head];
    state.sum() = rows.sum[head];
  }
}

void EstimateAttention::AttendUnitScalar(const Heads& heads, int64_t count,
                                         float* states,
                                         Scratch& scratch) const {
  const HeadBlockFormat& format = heads.cache.format;
  const int64_t width = Width(heads.cache);
  const float scale_log2 = heads.args.scale * std::numbers::log2e_v<float>;
  std::array<float, kUnitClusters> scores;
  for (int head = 0; head < heads.num_heads; ++head) {
    const SoftmaxState state(
        states + head * SoftmaxState::NumFloats(format.v_dim), format.v_dim);
    const float* q = scratch.q.data() + head * width;
    state.MarkEmpty();
    for (int64_t i = 0; i < count; ++i) {
      const float* key = scratch.keys.data() + i * width;
      float dot = 0;
      for (int64_t c = 0; c <= format.k_dim; ++c) dot += q[c] * key[c];
      scores[static_cast<size_t>(i)] = dot * scale_log2;
      state.maximum() =
          std::max(state.maximum(), scores[static_cast<size_t>(i)]);
    }
    state.sum() = 0;
    std::fill_n(state.values(), format.v_dim, 0.0f);
    for (int64_t i = 0; i < count; ++i) {
      const float weight =
          std::exp2(scores[static_cast<size_t>(i)] - state.maximum());
      const float* value = scratch.values.data() + i * format.v_dim;
      state.sum() += weight;
      for (int c = 0; c < format.v_dim; ++c) {
        state.values()[c] += weight * value[c];
      }
    }
  }
}

void EstimateAttention::Write(const Heads& heads, int index,
                              const float* memory) {
  const int dim = heads.cache.format.v_dim;
  const float maximum = memory[dim], sum = memory[dim + 1];
  const bool empty = maximum == kNoKeyYet;
  const int64_t head = heads.first_head + index;
  float* out =
      heads.args.out.Row<float>(heads.row) + head * heads.args.out.stride[1];
  for (int c = 0; c < dim; ++c) out[c] = empty ? 0.0f : memory[c] / sum;
  heads.args.lse.Row<float>(heads.row)[head] =
      empty ? -std::numeric_limits<float>::infinity()
            : (maximum + std::log2(sum)) * std::numbers::ln2_v<float>;
}

}  // namespace winnow
