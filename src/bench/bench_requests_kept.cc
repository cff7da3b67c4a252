// What selectors keep besides summaries of keys, and what it takes to make it.
#include <cmath>
#include <numeric>

#include "bench/bench_requests.h"

namespace winnow {

// Attend and MergeStates of estimates take as much memory as these give.
Status BenchRequests::TakeEstimates() {
  const int64_t capacity = MaxEstimates(program_, shape_.context_tokens);
  if (capacity == 0) return Ok{};
  const int64_t rows = step_.num_rows, heads = shape_.num_q_heads;
  ASSIGN_OR_RETURN(lists_.estimates,
                   memory_.Take(Dtype::kInt32, {rows, heads, capacity}));
  ASSIGN_OR_RETURN(lists_.num_estimates,
                   memory_.Take(Dtype::kInt32, {rows, heads}));
  for (size_t part = 0; part < 2; ++part) {
    ASSIGN_OR_RETURN(outs_[part], memory_.Take(Dtype::kFloat32,
                                               {rows, heads, shape_.head_dim}));
    ASSIGN_OR_RETURN(lses_[part], memory_.Take(Dtype::kFloat32, {rows, heads}));
  }
  return Ok{};
}

Status BenchRequests::TakeGates() {
  const int64_t dim = shape_.head_dim, heads = shape_.num_kv_heads;
  if (!has_gates()) return Ok{};
  const std::vector<float> ones(static_cast<size_t>(shape_.batch), 1.0f);
  ASSIGN_OR_RETURN(gate_q_,
                   memory_.TakeRandom(Dtype::kFloat32,
                                      {shape_.num_layers, heads,
                                       shape_.num_q_heads / heads * dim, dim}));
  ASSIGN_OR_RETURN(
      gate_k_, memory_.TakeRandom(Dtype::kFloat32,
                                  {shape_.num_layers, heads, 3 * dim, dim}));
  ASSIGN_OR_RETURN(frequencies_,
                   memory_.Take(Dtype::kFloat32, {shape_.batch, dim / 2}));
  ASSIGN_OR_RETURN(rope_scale_, memory_.TakeFloats(ones, {shape_.batch}));
  return Ok{};
}

// A choice is made at the row before the step's, which then reads by it.
Status BenchRequests::TakeFixed() {
  const auto batch = static_cast<size_t>(shape_.batch);
  const auto context = static_cast<int32_t>(shape_.context_tokens);
  ASSIGN_OR_RETURN(context_tokens_,
                   memory_.TakeIntegers(std::vector<int32_t>(batch, context)));
  fixed_.layout =
      MakeFixedLayout(program_, {.num_q_heads = shape_.num_q_heads,
                                 .num_kv_heads = shape_.num_kv_heads,
                                 .k_dim = shape_.head_dim,
                                 .q_dtype = shape_.dtypes.compute});
  if (fixed_.layout.num_lists == 0) return Ok{};
  ASSIGN_OR_RETURN(
      step_.num_prompt_tokens,
      memory_.TakeIntegers(std::vector<int32_t>(batch, context - 1)));
  step_.num_context_tokens = step_.num_prompt_tokens;
  const int64_t segments = PagesFor(PagesFor(context), kFixedSegmentPages);
  fixed_.segment_stride_bytes = shape_.num_kv_heads * fixed_.layout.words_bytes;
  words_stride_bytes_ = shape_.batch * segments * fixed_.segment_stride_bytes;
  ASSIGN_OR_RETURN(
      const View words,
      memory_.Take(Dtype::kUInt8, {shape_.num_layers, words_stride_bytes_}));
  fixed_.words = words.data;
  std::vector<uint32_t> order(static_cast<size_t>(shape_.batch * segments));
  std::iota(order.begin(), order.end(), 0u);
  ASSIGN_OR_RETURN(fixed_.segments, memory_.TakeRows(order, segments));
  if (fixed_.layout.queries_bytes == 0) return Ok{};
  fixed_.slot_stride_bytes = shape_.num_kv_heads * fixed_.layout.queries_bytes;
  fixed_stride_bytes_ = shape_.batch * fixed_.slot_stride_bytes;
  // Queries that no step has kept are any numbers.
  ASSIGN_OR_RETURN(const View slots,
                   memory_.TakeRandom(shape_.dtypes.compute,
                                      {shape_.num_layers,
                                       fixed_stride_bytes_ /
                                           DtypeBytes(shape_.dtypes.compute)}));
  fixed_.slots = slots.data;
  order.resize(batch);
  ASSIGN_OR_RETURN(fixed_.slot_of_request, memory_.TakeRows(order, 1));
  return Ok{};
}

Status BenchRequests::TakeNext() {
  if (shape_.next_times <= 0) return Ok{};
  const int64_t rows = step_.num_rows, heads = shape_.num_q_heads;
  const int64_t capacity = MaxPicks(
      WithBudgetTimes(program_, shape_.next_times), shape_.context_tokens);
  ASSIGN_OR_RETURN(next_lists_.picks,
                   memory_.Take(Dtype::kUInt32, {rows, heads, capacity, 2}));
  ASSIGN_OR_RETURN(next_lists_.num_picks,
                   memory_.Take(Dtype::kInt32, {rows, heads}));
  ASSIGN_OR_RETURN(next_lists_.num_lists, memory_.Take(Dtype::kInt32, {rows}));
  const std::vector<int32_t> ones(static_cast<size_t>(shape_.batch), 1);
  ASSIGN_OR_RETURN(slots_.num_segments, memory_.TakeIntegers(ones));
  return Ok{};
}

SummarizeArgs BenchRequests::SummarizeArgsOf(
    const LayerSelector& selector) const {
  return {.selectors = {&selector, 1},
          .first_token = first_token_,
          .q = inputs_.q,
          .scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)),
          .inverse_frequencies = frequencies_,
          .rope_scale = rope_scale_};
}

void BenchRequests::SummarizeAll(int layer) {
  const LayerSelector selector = SelectorOf(layer);
  SummarizeArgs args = SummarizeArgsOf(selector);
  args.first_token = from_nothing_;
  LayerStep step = step_;
  step.num_prompt_tokens = step.num_context_tokens = context_tokens_;
  backend_.Summarize(queue(), step, args, CacheOf(layer));
}

void BenchRequests::ClusterKeys(int layer) {
  if (!has_clusters()) return;
  const LayerSelector selector = SelectorOf(layer);
  backend_.ClusterKeys(
      queue(), step_,
      {.selectors = {&selector, 1}, .first_token = from_nothing_},
      CacheOf(layer));
}

void BenchRequests::ReadEstimates(int layer) {
  const LayerSelector selector = SelectorOf(layer);
  const AttendSource source = {.kind = AttendSource::Kind::kEstimates,
                               .picks = lists_,
                               .selectors = {&selector, 1}};
  AttendArgs args = ArgsOf(layer, source);
  args.out = outs_[1];
  args.lse = lses_[1];
  backend_.Attend(queue(), step_, args, CacheOf(layer));
}

void BenchRequests::MergeStates() {
  backend_.MergeStates(queue(), step_,
                       {.outs = outs_,
                        .lses = lses_,
                        .first_row = 0,
                        .num_rows = step_.num_rows,
                        .out = out_});
}

double BenchRequests::num_rows(const SummaryRows& rows) const {
  return static_cast<double>(NumVisibleRows(rows, shape_.context_tokens)) *
         shape_.batch * shape_.num_kv_heads;
}

double BenchRequests::gate_query_bytes() const {
  if (!has_gates()) return 0;
  const double dim = shape_.head_dim;
  return shape_.num_q_heads * dim * dim * sizeof(float);
}

double BenchRequests::gate_query_flops() const {
  if (!has_gates()) return 0;
  const double dim = shape_.head_dim;
  return 2.0 * step_.num_rows * shape_.num_q_heads * dim * dim;
}

double BenchRequests::select_flops() const {
  const int group = has_gates() ? 1 : shape_.num_q_heads / shape_.num_kv_heads;
  double flops = gate_query_flops();
  for (const SummaryRows* rows : {&program_.rows, &program_.normalizer}) {
    const bool bounds = rows->kind == SummaryRows::Kind::kMinMax ||
                        rows->kind == SummaryRows::Kind::kCuboid;
    const double width = (bounds ? 2.0 : 1.0) * shape_.head_dim;
    if (rows->kind != SummaryRows::Kind::kNone) {
      flops += 2 * width * num_rows(*rows) * group;
    }
  }
  return flops;
}

double BenchRequests::all_summaries_bytes() const {
  const double dim = shape_.head_dim;
  const double weights =
      has_gates() ? 3 * dim * dim * shape_.num_kv_heads * sizeof(float) : 0;
  return kv_bytes() / 2 + summary_bytes() + weights;
}

double BenchRequests::all_summaries_flops() const {
  const double dim = shape_.head_dim;
  if (has_gates()) return 6 * dim * dim * num_rows(program_.rows);
  const auto tokens = static_cast<double>(shape_.context_tokens) * shape_.batch;
  if (program_.fixed.kind == FixedChoice::Kind::kObserved) {
    // Scores, once: sums need what they sum to.
    return 2 * dim * tokens * shape_.num_q_heads * program_.fixed.window_tokens;
  }
  return 2 * dim * tokens * shape_.num_kv_heads;
}

double BenchRequests::index_bytes() const {
  return kv_bytes() + num_rows(program_.rows) * 2 * head_bytes();
}

double BenchRequests::index_flops() const {
  // A segment's keys meet its clusters as often as they are assigned.
  return 2.0 * shape_.head_dim * program_.rows.tokens *
         num_rows(program_.rows) * (program_.index.iterations + 1);
}

double BenchRequests::combine_bytes() const {
  const double outs = static_cast<double>(out_.num_elements());
  return 2 * outs * sizeof(float) + outs * DtypeBytes(out_.dtype) +
         2.0 * step_.num_rows * shape_.num_q_heads * sizeof(float);
}

Result<double> BenchRequests::EstimatedBytes() {
  ASSIGN_OR_RETURN(std::vector<std::byte> num_lists,
                   memory_.Download(lists_.num_lists));
  ASSIGN_OR_RETURN(std::vector<std::byte> num_estimates,
                   memory_.Download(lists_.num_estimates));
  PickLists lists = lists_;
  lists.num_lists.data = num_lists.data();
  lists.num_estimates.data = num_estimates.data();
  int64_t clusters = 0;
  for (int64_t row = 0; row < step_.num_rows; ++row) {
    for (int32_t list = 0; list < lists.NumLists(row); ++list) {
      clusters += lists.NumEstimates(row, list);
    }
  }
  // A mean key, a mean value and a size.
  return static_cast<double>(clusters) * (2 * head_bytes() + sizeof(uint32_t));
}

}  // namespace winnow
