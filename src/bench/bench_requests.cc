#include "bench/bench_requests.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "sparse/spec/selector.h"

namespace winnow {

int64_t BenchRequests::LayerBytes(const Shape& shape) {
  return shape.batch * PagesFor(shape.context_tokens) * shape.num_kv_heads *
         MakeHeadBlockFormat(shape.dtypes.kv, shape.head_dim, shape.head_dim)
             .head_block_bytes;
}

Result<std::unique_ptr<BenchRequests>> BenchRequests::Create(
    Backend& backend, const Shape& shape) {
  std::unique_ptr<BenchRequests> bench(new BenchRequests(backend, shape));
  if (!shape.select.empty()) RETURN_IF_ERROR(bench->MakeProgram());
  RETURN_IF_ERROR(bench->TakeKv());
  RETURN_IF_ERROR(bench->TakeRows());
  if (shape.select.empty()) return bench;
  RETURN_IF_ERROR(bench->TakeSummaries());
  RETURN_IF_ERROR(bench->TakeLists());
  RETURN_IF_ERROR(bench->TakeGates());
  RETURN_IF_ERROR(bench->TakeFixed());
  RETURN_IF_ERROR(bench->TakeEstimates());
  RETURN_IF_ERROR(bench->TakeNext());
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    const LayerSelector selector = bench->SelectorOf(layer);
    SummarizeArgs args = bench->SummarizeArgsOf(selector);
    args.first_token = bench->from_nothing_;
    backend.Summarize(bench->queue(), bench->step_, args,
                      bench->CacheOf(layer));
    bench->ClusterKeys(layer);
  }
  return bench;
}

Status BenchRequests::MakeProgram() {
  ASSIGN_OR_RETURN(
      const Selector selector,
      MakeSelector(shape_.select, {.num_layers = 1,
                                   .num_q_heads = shape_.num_q_heads,
                                   .num_kv_heads = shape_.num_kv_heads,
                                   .head_dim = shape_.head_dim,
                                   .kv_dtype = shape_.dtypes.kv,
                                   .max_context_tokens =
                                       static_cast<int>(shape_.context_tokens),
                                   .windows = {0}}));
  program_ = selector.program;
  SummaryLayout& layout = summaries_.layout;
  layout = MakeSummaryLayout(program_, shape_.head_dim, shape_.head_dim);
  if (shape_.summary_place == SummaryPlace::kSegments) return Ok{};
  SummaryLayout::Level& level = layout.levels[0];
  CHECK(program_.rows.tokens == kPageTokens &&
            program_.rows.stride == kPageTokens &&
            layout.levels[1].rows_per_segment == 0,
        "{} has no row a page", shape_.select);
  layout.segment_tokens = kPageTokens;
  level.rows_per_segment = 1;
  layout.head_bytes = level.row_bytes;
  return Ok{};
}

// Of a layer's page: K and V, and summaries where they lie beside these.
int64_t BenchRequests::layer_block_bytes() const {
  int64_t head_bytes =
      MakeHeadBlockFormat(shape_.dtypes.kv, shape_.head_dim, shape_.head_dim)
          .head_block_bytes;
  if (shape_.summary_place == SummaryPlace::kBesideKv) {
    head_bytes += summaries_.layout.head_bytes;
  }
  return shape_.num_kv_heads * head_bytes;
}

Status BenchRequests::TakeKv() {
  const int64_t pages = PagesFor(shape_.context_tokens);
  cache_.format =
      MakeHeadBlockFormat(shape_.dtypes.kv, shape_.head_dim, shape_.head_dim);
  cache_.num_kv_heads = shape_.num_kv_heads;
  const int64_t kv_blocks = shape_.batch * pages;
  const bool by_layer = shape_.pool_order == PoolOrder::kLayerMajor;
  cache_.kv_block_stride_bytes =
      layer_block_bytes() * (by_layer ? 1 : shape_.num_layers);
  layer_stride_bytes_ = layer_block_bytes() * (by_layer ? kv_blocks : 1);
  if (shape_.value_place == ValuePlace::kApart) {
    cache_.format.head_block_bytes /= 2;
    cache_.format.v_offset_bytes = layer_stride_bytes_ / 2;
    cache_.kv_block_stride_bytes /= 2;
  }
  ASSIGN_OR_RETURN(
      const View layer_blocks,
      memory_.TakeRandom(shape_.dtypes.kv,
                         {shape_.num_layers, kv_blocks,
                          layer_block_bytes() / DtypeBytes(shape_.dtypes.kv)}));
  cache_.layer_blocks = layer_blocks.data;
  std::vector<uint32_t> table(static_cast<size_t>(kv_blocks));
  std::iota(table.begin(), table.end(), 0u);
  std::shuffle(table.begin(), table.end(), std::mt19937(1));
  cache_.max_pages = static_cast<int>(pages);
  ASSIGN_OR_RETURN(cache_.page_table, memory_.TakeRows(table, pages));
  return Ok{};
}

Status BenchRequests::TakeRows() {
  const int64_t rows = rows_a_request(), batch = shape_.batch;
  const auto take = [&](int64_t first, int64_t by) {
    std::vector<int32_t> values;
    for (int64_t i = 0; i < batch; ++i) {
      values.push_back(static_cast<int32_t>(first + i * by));
    }
    return memory_.TakeIntegers(values);
  };
  std::vector<int32_t> requests;
  for (int64_t row = 0; row < batch * rows; ++row) {
    requests.push_back(static_cast<int32_t>(row / rows));
  }
  const int64_t prefill_rows = shape_.prefill_rows ? rows : 0;
  step_.num_rows = static_cast<int>(batch * rows);
  step_.num_requests = shape_.batch;
  step_.has_prefill_rows = shape_.prefill_rows;
  step_.has_decode_rows = !shape_.prefill_rows;
  ASSIGN_OR_RETURN(step_.row_to_request, memory_.TakeIntegers(requests));
  ASSIGN_OR_RETURN(step_.first_row, take(0, rows));
  ASSIGN_OR_RETURN(step_.first_position, take(shape_.context_tokens - rows, 0));
  ASSIGN_OR_RETURN(step_.num_tokens, take(rows, 0));
  ASSIGN_OR_RETURN(step_.num_prefill_rows, take(prefill_rows, 0));
  ASSIGN_OR_RETURN(first_token_, take(shape_.context_tokens - rows, 0));
  ASSIGN_OR_RETURN(from_nothing_, take(0, 0));
  const int64_t q_heads = shape_.num_q_heads, kv_heads = shape_.num_kv_heads;
  const int64_t dim = shape_.head_dim, all_rows = batch * rows;
  const int64_t queries = shape_.prefill_rows ? 1 : shape_.num_layers;
  ASSIGN_OR_RETURN(q_, memory_.TakeRandom(shape_.dtypes.compute,
                                          {queries, all_rows, q_heads, dim}));
  ASSIGN_OR_RETURN(
      out_, memory_.Take(shape_.dtypes.compute, {all_rows, q_heads, dim}));
  ASSIGN_OR_RETURN(inputs_.q, memory_.TakeRandom(shape_.dtypes.compute,
                                                 {all_rows, q_heads, dim}));
  ASSIGN_OR_RETURN(inputs_.k, memory_.TakeRandom(shape_.dtypes.compute,
                                                 {all_rows, kv_heads, dim}));
  ASSIGN_OR_RETURN(inputs_.v, memory_.TakeRandom(shape_.dtypes.compute,
                                                 {all_rows, kv_heads, dim}));
  // No rotation: q, which is rotated in place, stays what it is.
  std::vector<float> cos_sin(static_cast<size_t>(all_rows * dim));
  for (int64_t i = 0; i < all_rows * dim; ++i) {
    cos_sin[static_cast<size_t>(i)] = i % dim < dim / 2 ? 1.0f : 0.0f;
  }
  ASSIGN_OR_RETURN(inputs_.cos_sin,
                   memory_.TakeFloats(cos_sin, {all_rows, dim}));
  return Ok{};
}

Status BenchRequests::TakeSummaries() {
  if (shape_.summary_place == SummaryPlace::kBesideKv) {
    summaries_.rows = cache_.layer_blocks +
                      shape_.num_kv_heads * cache_.format.head_block_bytes;
    summaries_.segment_stride_bytes = cache_.kv_block_stride_bytes;
    summary_stride_bytes_ = layer_stride_bytes_;
    summaries_.segments = cache_.page_table;
    return Ok{};
  }
  summaries_.segment_stride_bytes =
      int64_t{shape_.num_kv_heads} * summaries_.layout.head_bytes;
  const int64_t segments =
      PagesFor(shape_.context_tokens, summaries_.layout.segment_tokens);
  summary_stride_bytes_ =
      shape_.batch * segments * summaries_.segment_stride_bytes;
  ASSIGN_OR_RETURN(
      const View rows,
      memory_.Take(Dtype::kUInt8, {shape_.num_layers, summary_stride_bytes_}));
  summaries_.rows = rows.data;
  std::vector<uint32_t> order(static_cast<size_t>(shape_.batch * segments));
  std::iota(order.begin(), order.end(), 0u);
  // As sequences that grow in turn take them.
  std::shuffle(order.begin(), order.end(), std::mt19937(2));
  ASSIGN_OR_RETURN(summaries_.segments, memory_.TakeRows(order, segments));
  return Ok{};
}

Status BenchRequests::TakeLists() {
  const std::vector<int32_t> zeros(static_cast<size_t>(shape_.batch), 0);
  ASSIGN_OR_RETURN(step_.selector, memory_.TakeIntegers(zeros));
  ASSIGN_OR_RETURN(step_.num_prompt_tokens, memory_.TakeIntegers(zeros));
  ASSIGN_OR_RETURN(step_.num_context_tokens, memory_.TakeIntegers(zeros));
  const int64_t rows = step_.num_rows, heads = shape_.num_q_heads;
  const int64_t capacity = MaxPicks(program_, shape_.context_tokens);
  ASSIGN_OR_RETURN(lists_.picks,
                   memory_.Take(Dtype::kUInt32, {rows, heads, capacity, 2}));
  ASSIGN_OR_RETURN(lists_.num_picks,
                   memory_.Take(Dtype::kInt32, {rows, heads}));
  ASSIGN_OR_RETURN(lists_.num_lists, memory_.Take(Dtype::kInt32, {rows}));
  return Ok{};
}

LayerCache BenchRequests::CacheOf(int layer) const {
  LayerCache cache = cache_;
  cache.layer_blocks += layer * layer_stride_bytes_;
  return cache;
}

LayerSelector BenchRequests::SelectorOf(int layer) const {
  LayerSelector selector;
  selector.program = &program_;
  selector.summaries = summaries_;
  selector.summaries.rows += layer * summary_stride_bytes_;
  selector.fixed = fixed_;
  selector.fixed.words += layer * words_stride_bytes_;
  selector.fixed.slots += layer * fixed_stride_bytes_;
  if (has_gates()) {
    const auto of_layer = [&](const View& all) {
      return all.Slice(layer, 1).Reshape({all.dim(1), all.dim(2), all.dim(3)});
    };
    selector.gate = {.q = of_layer(gate_q_),
                     .k = of_layer(gate_k_),
                     .q_norm = {},
                     .k_norm = {}};
  }
  return selector;
}

View BenchRequests::QueryOf(int layer) const {
  return q_.Slice(layer % q_.dim(0), 1)
      .Reshape({out_.dim(0), out_.dim(1), out_.dim(2)});
}

AttendArgs BenchRequests::ArgsOf(int layer, const AttendSource& source) const {
  AttendArgs args;
  args.q = QueryOf(layer);
  args.sources = {&source, 1};
  args.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
  args.out = out_;
  return args;
}

void BenchRequests::Append(int layer) {
  backend_.Append(queue(), step_, inputs_, CacheOf(layer));
}

void BenchRequests::Summarize(int layer) {
  const LayerSelector selector = SelectorOf(layer);
  backend_.Summarize(queue(), step_, SummarizeArgsOf(selector), CacheOf(layer));
}

void BenchRequests::Select(int layer) {
  const LayerSelector selector = SelectorOf(layer);
  SelectArgs args;
  args.selectors = {&selector, 1};
  args.q = QueryOf(layer);
  args.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
  args.picks = lists_;
  args.q_pre = args.q;
  args.cos_sin = inputs_.cos_sin;
  args.first_token = first_token_;
  args.next = {.lists = next_lists_,
               .budget_times = std::max(shape_.next_times, 1.0),
               .slots = &slots_};
  backend_.Select(queue(), step_, args, CacheOf(layer));
}

void BenchRequests::ReadPicks(int layer) {
  const AttendSource source = {.kind = AttendSource::Kind::kPicks,
                               .picks = lists_};
  backend_.Attend(queue(), step_, ArgsOf(layer, source), CacheOf(layer));
}

void BenchRequests::ReadEverything(int layer) {
  const AttendSource source;
  backend_.Attend(queue(), step_, ArgsOf(layer, source), CacheOf(layer));
}

double BenchRequests::head_bytes() const {
  return static_cast<double>(shape_.head_dim) * DtypeBytes(shape_.dtypes.kv);
}

double BenchRequests::append_bytes() const {
  // q, k and v are read and written.
  return 2.0 * step_.num_rows * (shape_.num_q_heads + 2 * shape_.num_kv_heads) *
         head_bytes();
}

double BenchRequests::summarized_bytes() const {
  const double keys = static_cast<double>(program_.rows.tokens) * shape_.batch;
  return keys * shape_.num_kv_heads * head_bytes();
}

double BenchRequests::summary_bytes() const {
  double bytes = 0;
  for (size_t level = 0; level < 2; ++level) {
    const int64_t rows =
        NumVisibleRows(level == 0 ? program_.rows : program_.normalizer,
                       shape_.context_tokens);
    bytes += static_cast<double>(rows) * shape_.batch * shape_.num_kv_heads *
             summaries_.layout.levels[level].row_bytes;
  }
  return bytes;
}

double BenchRequests::kv_bytes() const {
  return static_cast<double>(shape_.context_tokens) * shape_.batch * 2 *
         shape_.num_kv_heads * head_bytes();
}

double BenchRequests::read_flops() const {
  const auto tokens = static_cast<double>(shape_.context_tokens);
  const double pairs = shape_.prefill_rows ? tokens * (tokens + 1) / 2 : tokens;
  return 4 * pairs * shape_.batch * shape_.num_q_heads * shape_.head_dim;
}

Result<double> BenchRequests::PickedBytes() {
  ASSIGN_OR_RETURN(std::vector<std::byte> num_lists,
                   memory_.Download(lists_.num_lists));
  ASSIGN_OR_RETURN(std::vector<std::byte> num_picks,
                   memory_.Download(lists_.num_picks));
  ASSIGN_OR_RETURN(std::vector<std::byte> picks,
                   memory_.Download(lists_.picks));
  PickLists lists = lists_;
  lists.num_lists.data = num_lists.data();
  lists.num_picks.data = num_picks.data();
  lists.picks.data = picks.data();
  int64_t tokens = 0;
  for (int64_t row = 0; row < step_.num_rows; ++row) {
    // A list is read once, by all heads that it serves.
    for (int64_t list = 0; list < lists.NumLists(row); ++list) {
      const int64_t count = lists.NumPicks(row, list);
      if (count == kEveryPage) {
        tokens += shape_.context_tokens * shape_.num_kv_heads;
      }
      for (int64_t i = 0; i < count; ++i) {
        tokens += std::popcount(lists.List(row, list)[i].tokens);
      }
    }
  }
  return static_cast<double>(tokens) * 2 * head_bytes();
}

}  // namespace winnow
