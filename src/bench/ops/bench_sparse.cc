#include "bench/ops/bench_sparse.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "bench/roofs/roof.h"
#include "sparse/spec/selector.h"

namespace winnow {
namespace {

// Of as many layers as no cache keeps, with what else a round reads.
constexpr int64_t kSummaryBytes = int64_t{256} << 20;
constexpr int64_t kNumQueries = 64;

void FillRandomly(const View& view, int64_t num_elements) {
  std::minstd_rand random(7);
  const auto value = [&random] {
    return static_cast<float>(random()) / 0x1p30f - 1.0f;
  };
  for (int64_t i = 0; i < num_elements; ++i) {
    switch (view.dtype) {
      case Dtype::kBFloat16:
        view.As<BFloat16>()[i] = BFloat16(value());
        break;
      case Dtype::kFloat16:
        view.As<Float16>()[i] = Float16(value());
        break;
      default:
        view.As<float>()[i] = value();
    }
  }
}

}  // namespace

Result<View> BenchSparse::Take(Dtype dtype,
                               std::initializer_list<int64_t> shape) {
  int64_t num_elements = 1;
  for (const int64_t size : shape) num_elements *= size;
  ASSIGN_OR_RETURN(
      Buffer buffer,
      backend_.Allocate(Tier::kDevice,
                        static_cast<size_t>(num_elements * DtypeBytes(dtype)),
                        "a measurement"));
  const View view = buffer.At(0, dtype, shape);
  buffers_.push_back(std::move(buffer));
  return view;
}

Result<View> BenchSparse::TakeRandom(Dtype dtype,
                                     std::initializer_list<int64_t> shape) {
  ASSIGN_OR_RETURN(const View view, Take(dtype, shape));
  FillRandomly(view, view.num_elements());
  return view;
}

Result<View> BenchSparse::TakeInteger(int64_t value) {
  ASSIGN_OR_RETURN(const View view, Take(Dtype::kInt32, {1}));
  *view.As<int32_t>() = static_cast<int32_t>(value);
  return view;
}

Result<std::unique_ptr<BenchSparse>> BenchSparse::Create(
    Backend& backend, const Shape& shape, std::string_view spec) {
  CHECK(backend.attributes().device_is_host, "tables are filled in place");
  std::unique_ptr<BenchSparse> bench(new BenchSparse(backend, shape));
  ASSIGN_OR_RETURN(
      const Selector selector,
      MakeSelector(
          // The second reads what the first keeps.
          spec, {.num_layers = 2,
                 .num_q_heads = shape.num_q_heads,
                 .num_kv_heads = shape.num_kv_heads,
                 .head_dim = shape.head_dim,
                 .kv_dtype = shape.dtypes.kv,
                 .max_context_tokens = static_cast<int>(shape.context_tokens),
                 .windows = {0, 0}}));
  bench->program_ = selector.program;
  RETURN_IF_ERROR(bench->AllocateKv());
  RETURN_IF_ERROR(bench->AllocateSummaries());
  RETURN_IF_ERROR(bench->AllocateRow());
  RETURN_IF_ERROR(bench->AllocateGate());
  RETURN_IF_ERROR(bench->AllocateFixed());
  bench->SummarizeLayers();
  return bench;
}

Status BenchSparse::AllocateKv() {
  const int64_t num_pages = PagesFor(shape_.context_tokens);
  cache_.format =
      MakeHeadBlockFormat(shape_.dtypes.kv, shape_.head_dim, shape_.head_dim);
  cache_.num_kv_heads = shape_.num_kv_heads;
  cache_.kv_block_stride_bytes =
      int64_t{shape_.num_kv_heads} * cache_.format.head_block_bytes;
  layer_kv_bytes_ = num_pages * cache_.kv_block_stride_bytes;
  num_kv_layers_ = UncachedBytes() / layer_kv_bytes_ + 1;
  const int64_t num_elements =
      num_kv_layers_ * layer_kv_bytes_ / DtypeBytes(shape_.dtypes.kv);
  ASSIGN_OR_RETURN(const View layer_blocks,
                   Take(shape_.dtypes.kv, {num_elements}));
  // A block of random numbers again and again, its length no page's multiple.
  const int64_t block = std::min<int64_t>(num_elements, 1'000'003);
  FillRandomly(layer_blocks, block);
  const int64_t bytes = DtypeBytes(shape_.dtypes.kv);
  for (int64_t at = block; at < num_elements; at += block) {
    std::memcpy(
        layer_blocks.data + at * bytes, layer_blocks.data,
        static_cast<size_t>(std::min(block, num_elements - at) * bytes));
  }
  layer_blocks_ = layer_blocks.data;
  cache_.max_pages = static_cast<int>(num_pages);
  RowTable& table = cache_.page_table;
  ASSIGN_OR_RETURN(table.first, Take(Dtype::kInt32, {1}));
  ASSIGN_OR_RETURN(table.entries, Take(Dtype::kUInt32, {num_pages}));
  *table.first.As<int32_t>() = 0;
  uint32_t* pages = table.Row(0);
  std::iota(pages, pages + num_pages, 0u);
  std::shuffle(pages, pages + num_pages, std::mt19937(1));
  return Ok{};
}

Status BenchSparse::AllocateSummaries() {
  selector_.program = &program_;
  SummaryTable& table = selector_.summaries;
  table.layout = MakeSummaryLayout(program_, shape_.head_dim, shape_.head_dim);
  table.segment_stride_bytes =
      int64_t{shape_.num_kv_heads} * table.layout.head_bytes;
  const int64_t num_segments =
      (shape_.context_tokens + table.layout.segment_tokens - 1) /
      table.layout.segment_tokens;
  layer_summary_bytes_ = num_segments * table.segment_stride_bytes;
  // Keys are their own summaries: of as many layers as there is KV.
  num_summary_layers_ = layer_summary_bytes_ == 0
                            ? num_kv_layers_
                            : kSummaryBytes / layer_summary_bytes_ + 1;
  ASSIGN_OR_RETURN(
      const View summaries,
      Take(Dtype::kUInt8,
           {std::max<int64_t>(1, num_summary_layers_ * layer_summary_bytes_)}));
  summaries_ = summaries.data;
  ASSIGN_OR_RETURN(table.segments.first, Take(Dtype::kInt32, {1}));
  ASSIGN_OR_RETURN(table.segments.entries,
                   Take(Dtype::kUInt32, {num_segments}));
  *table.segments.first.As<int32_t>() = 0;
  uint32_t* segments = table.segments.Row(0);
  std::iota(segments, segments + num_segments, 0u);
  return Ok{};
}

Status BenchSparse::AllocateRow() {
  step_.num_rows = step_.num_requests = 1;
  ASSIGN_OR_RETURN(step_.row_to_request, TakeInteger(0));
  ASSIGN_OR_RETURN(step_.first_row, TakeInteger(0));
  ASSIGN_OR_RETURN(step_.first_position,
                   TakeInteger(shape_.context_tokens - 1));
  ASSIGN_OR_RETURN(step_.num_tokens, TakeInteger(1));
  ASSIGN_OR_RETURN(step_.num_prefill_rows, TakeInteger(0));
  ASSIGN_OR_RETURN(step_.selector, TakeInteger(0));
  ASSIGN_OR_RETURN(step_.num_prompt_tokens, TakeInteger(0));
  const int64_t num_heads = shape_.num_q_heads;
  const int64_t capacity = MaxPicks(program_, shape_.context_tokens);
  ASSIGN_OR_RETURN(lists_.picks,
                   Take(Dtype::kUInt32, {1, num_heads, capacity, 2}));
  ASSIGN_OR_RETURN(lists_.num_picks, Take(Dtype::kInt32, {1, num_heads}));
  ASSIGN_OR_RETURN(lists_.num_lists, Take(Dtype::kInt32, {1}));
  ASSIGN_OR_RETURN(q_, TakeRandom(shape_.dtypes.compute,
                                  {kNumQueries, num_heads, shape_.head_dim}));
  ASSIGN_OR_RETURN(
      out_, Take(shape_.dtypes.compute, {1, num_heads, shape_.head_dim}));
  if (!estimates()) return Ok{};
  const int64_t most = MaxEstimates(program_, shape_.context_tokens);
  ASSIGN_OR_RETURN(lists_.estimates, Take(Dtype::kInt32, {1, num_heads, most}));
  ASSIGN_OR_RETURN(lists_.num_estimates, Take(Dtype::kInt32, {1, num_heads}));
  ASSIGN_OR_RETURN(estimate_,
                   Take(Dtype::kFloat32, {1, num_heads, shape_.head_dim}));
  ASSIGN_OR_RETURN(lse_, Take(Dtype::kFloat32, {1, num_heads}));
  return Ok{};
}

Status BenchSparse::AllocateGate() {
  if (!has_gate()) return Ok{};
  const int64_t heads = shape_.num_kv_heads, dim = shape_.head_dim;
  const int64_t group = shape_.num_q_heads / heads;
  ASSIGN_OR_RETURN(selector_.gate.q,
                   TakeRandom(Dtype::kFloat32, {heads, group * dim, dim}));
  ASSIGN_OR_RETURN(selector_.gate.k,
                   TakeRandom(Dtype::kFloat32, {heads, 3 * dim, dim}));
  ASSIGN_OR_RETURN(cos_sin_, Take(Dtype::kFloat32, {1, dim}));
  std::fill_n(cos_sin_.As<float>(), dim / 2, 1.0f);
  std::fill_n(cos_sin_.As<float>() + dim / 2, dim / 2, 0.0f);
  ASSIGN_OR_RETURN(frequencies_, Take(Dtype::kFloat32, {1, dim / 2}));
  std::fill_n(frequencies_.As<float>(), dim / 2, 0.0f);
  ASSIGN_OR_RETURN(rope_scale_, Take(Dtype::kFloat32, {1}));
  *rope_scale_.As<float>() = 1.0f;
  return Ok{};
}

// A bit a token, of every layer the same.
Status BenchSparse::AllocateFixed() {
  FixedTable& fixed = selector_.fixed;
  fixed.layout = MakeFixedLayout(program_, {.num_q_heads = shape_.num_q_heads,
                                            .num_kv_heads = shape_.num_kv_heads,
                                            .k_dim = shape_.head_dim,
                                            .q_dtype = shape_.dtypes.compute});
  if (fixed.layout.num_lists == 0) return Ok{};
  CHECK(fixed.layout.queries_bytes == 0, "no query has been seen");
  ASSIGN_OR_RETURN(step_.num_prompt_tokens,
                   TakeInteger(shape_.context_tokens - 1));
  step_.num_context_tokens = step_.num_prompt_tokens;
  const int64_t num_segments =
      PagesFor(PagesFor(shape_.context_tokens), kFixedSegmentPages);
  fixed.segment_stride_bytes = shape_.num_kv_heads * fixed.layout.words_bytes;
  ASSIGN_OR_RETURN(
      const View words,
      Take(Dtype::kUInt8, {num_segments * fixed.segment_stride_bytes}));
  fixed.words = words.data;
  ASSIGN_OR_RETURN(fixed.segments.first, Take(Dtype::kInt32, {1}));
  ASSIGN_OR_RETURN(fixed.segments.entries,
                   Take(Dtype::kUInt32, {num_segments}));
  *fixed.segments.first.As<int32_t>() = 0;
  std::iota(fixed.segments.Row(0), fixed.segments.Row(0) + num_segments, 0u);
  return Ok{};
}

void BenchSparse::SummarizeLayers() {
  // All tokens are new to the summaries: from token 0 on.
  const View first_token = step_.num_prefill_rows;
  CHECK(*first_token.As<int32_t>() == 0, "first_token {}",
        ToString(first_token));
  for (int64_t layer = 0; layer < num_summary_layers_; ++layer) {
    SetLayer(layer);
    if (layer < num_kv_layers_) {
      backend_.Summarize(
          *queue_, step_,
          {.selectors = {&selector_, 1},
           .first_token = first_token,
           .q = q_.Slice(0, 1),
           .scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)),
           .inverse_frequencies = frequencies_,
           .rope_scale = rope_scale_},
          cache_);
      if (has_clusters()) ClusterKeys();
    } else {
      std::memcpy(selector_.summaries.rows,
                  summaries_ + layer % num_kv_layers_ * layer_summary_bytes_,
                  static_cast<size_t>(layer_summary_bytes_));
    }
  }
}

void BenchSparse::SetLayer(int64_t layer) {
  layer_ = layer;
  cache_.layer_blocks =
      layer_blocks_ + layer % num_kv_layers_ * layer_kv_bytes_;
  selector_.summaries.rows =
      summaries_ + layer % num_summary_layers_ * layer_summary_bytes_;
}

void BenchSparse::NextLayer() { SetLayer(layer_ + 1); }

AttendArgs BenchSparse::Args(const AttendSource& source) {
  AttendArgs args;
  args.q = q_.Slice(layer_ % kNumQueries, 1);
  args.sources = {&source, 1};
  args.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
  args.out = out_;
  return args;
}

void BenchSparse::Select() {
  SelectArgs args;
  args.selectors = {&selector_, 1};
  args.q = q_.Slice(layer_ % kNumQueries, 1);
  args.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
  args.picks = lists_;
  args.q_pre = args.q;
  args.cos_sin = cos_sin_;
  backend_.Select(*queue_, step_, args, cache_);
}

void BenchSparse::ReadPicks() {
  const AttendSource source = {.kind = AttendSource::Kind::kPicks,
                               .picks = lists_};
  backend_.Attend(*queue_, step_, Args(source), cache_);
}

void BenchSparse::ReadEstimates() {
  const AttendSource source = {.kind = AttendSource::Kind::kEstimates,
                               .picks = lists_,
                               .selectors = {&selector_, 1}};
  AttendArgs args = Args(source);
  args.out = estimate_;
  args.lse = lse_;
  backend_.Attend(*queue_, step_, args, cache_);
}

void BenchSparse::ClusterKeys() {
  backend_.ClusterKeys(
      *queue_, step_,
      {.selectors = {&selector_, 1}, .first_token = step_.num_prefill_rows},
      cache_);
}

void BenchSparse::ReadEverything() {
  const AttendSource source;
  backend_.Attend(*queue_, step_, Args(source), cache_);
}

}  // namespace winnow
