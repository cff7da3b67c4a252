#include "tests/golden/step_driver.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "model/forward/rope.h"

namespace winnow {
namespace {

constexpr std::chrono::milliseconds kPatience(60000);

Buffer Allocated(Backend& backend, size_t num_bytes) {
  return backend.Allocate(Tier::kDevice, num_bytes, "test").value();
}

}  // namespace

StepDriver::StepDriver(Backend& backend, const Model& model, int num_requests,
                       int max_tokens)
    : backend_(backend),
      model_(model),
      queue_(backend.MakeQueue()),
      pages_per_request_(static_cast<int>(PagesFor(max_tokens))),
      frequencies_(static_cast<size_t>(num_requests)),
      scales_(static_cast<size_t>(num_requests)) {
  CHECK(backend.attributes().device_is_host);
  const ModelConfig& config = model.config();
  const HeadBlockFormat format =
      MakeHeadBlockFormat(model.dtypes().kv, config.head_dim, config.head_dim);
  const int64_t layer_block_bytes =
      int64_t{config.num_kv_heads} * format.head_block_bytes;
  const int64_t layer_bytes =
      layer_block_bytes * pages_per_request_ * num_requests;
  const auto pool_bytes = static_cast<size_t>(layer_bytes * config.num_layers);
  pool_ = Allocated(backend, pool_bytes);
  // Anything read before it is written shows.
  std::memset(pool_.data(), 0x7f, pool_bytes);
  const auto num_entries =
      static_cast<size_t>(num_requests * pages_per_request_);
  table_ =
      Allocated(backend, (static_cast<size_t>(num_requests) + num_entries) *
                             sizeof(uint32_t));
  const RowTable pages = {
      .first = table_.At(0, Dtype::kInt32, {num_requests}),
      .entries =
          table_.At(static_cast<size_t>(num_requests) * sizeof(int32_t),
                    Dtype::kUInt32, {static_cast<int64_t>(num_entries)})};
  for (int i = 0; i < num_requests; ++i) {
    pages.first.As<int32_t>()[i] = i * pages_per_request_;
  }
  for (int layer = 0; layer < config.num_layers; ++layer) {
    layers_.push_back({.format = format,
                       .num_kv_heads = config.num_kv_heads,
                       .layer_blocks = pool_.data() + layer * layer_bytes,
                       .kv_block_stride_bytes = layer_block_bytes,
                       .page_table = pages,
                       .max_pages = pages_per_request_});
  }
}

void StepDriver::Plan(int request, int64_t planned_tokens) {
  const auto index = static_cast<size_t>(request);
  const RopeConfig& rope = model_.config().rope;
  frequencies_[index].resize(static_cast<size_t>(rope.rotary_dim / 2));
  RopeFrequencies(rope, planned_tokens, frequencies_[index], &scales_[index]);
}

void StepDriver::Choose(const SelectProgram& program) {
  const ModelConfig& config = model_.config();
  const SummaryLayout layout =
      MakeSummaryLayout(program, config.head_dim, config.head_dim);
  CHECK(pages_per_request_ * kPageTokens <= layout.segment_tokens, "pages={}",
        pages_per_request_);
  const int64_t num_requests = std::ssize(frequencies_);
  const int64_t stride = layout.head_bytes * config.num_kv_heads;
  const int64_t layer_bytes = stride * num_requests;
  const auto num_bytes = static_cast<size_t>(layer_bytes * config.num_layers);
  summaries_ = Allocated(backend_, std::max<size_t>(num_bytes, 1));
  std::memset(summaries_.data(), 0x7f, num_bytes);
  // The rows of a table of one segment each, then the segments.
  segments_ = Allocated(
      backend_, 2 * static_cast<size_t>(num_requests) * sizeof(uint32_t));
  RowTable table;
  table.first = segments_.At(0, Dtype::kInt32, {num_requests});
  table.entries =
      segments_.At(static_cast<size_t>(num_requests) * sizeof(int32_t),
                   Dtype::kUInt32, {num_requests});
  std::iota(table.first.As<int32_t>(), table.first.As<int32_t>() + num_requests,
            0);
  selectors_.clear();
  for (int layer = 0; layer < config.num_layers; ++layer) {
    selectors_.push_back(
        {.program = &program,
         .summaries = {.layout = layout,
                       .rows = summaries_.data() + layer * layer_bytes,
                       .segment_stride_bytes = stride,
                       .segments = table}});
  }
}

// Lists of few rows at a time, so that long steps take several.
void StepDriver::Select(std::span<const DrivenRows> requests,
                        ForwardArgs& args) {
  constexpr int kMostRows = 64;
  const int64_t num_rows = std::min(args.step.num_rows, kMostRows);
  const int64_t num_heads = model_.config().num_q_heads;
  const int64_t capacity =
      MaxPicks(*selectors_[0].program, pages_per_request_ * kPageTokens);
  std::vector<int32_t> selectors, num_prompt_tokens, first_token;
  for (size_t i = 0; i < requests.size(); ++i) {
    selectors.push_back(0);
    num_prompt_tokens.push_back(requests[i].num_prompt_tokens);
    first_token.push_back(requests[i].first_position);
    *selectors_[0].summaries.segments.Row(static_cast<int64_t>(i)) =
        static_cast<uint32_t>(requests[i].request);
  }
  args.step.selector = Integers(selectors);
  args.step.num_prompt_tokens = Integers(num_prompt_tokens);
  const auto ints = [&](std::initializer_list<int64_t> shape, Dtype dtype) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    step_memory_.push_back(
        Allocated(backend_, static_cast<size_t>(count) * sizeof(int32_t)));
    return MakeView(step_memory_.back().data(), dtype, shape);
  };
  args.selection = {
      .selectors = selectors_,
      .num_selectors = 1,
      .first_token = Integers(first_token),
      .read_shares = {},
      .picks = {
          .picks = ints({num_rows, num_heads, capacity, 2}, Dtype::kUInt32),
          .num_picks = ints({num_rows, num_heads}, Dtype::kInt32),
          .num_lists = ints({num_rows}, Dtype::kInt32)}};
}

View StepDriver::Integers(const std::vector<int32_t>& values) {
  const size_t num_bytes = values.size() * sizeof(int32_t);
  step_memory_.push_back(Allocated(backend_, num_bytes));
  std::memcpy(step_memory_.back().data(), values.data(), num_bytes);
  return step_memory_.back().At(0, Dtype::kInt32,
                                {static_cast<int64_t>(values.size())});
}

View StepDriver::PlannedRope(std::span<const DrivenRows> requests,
                             View* scale) {
  const int64_t half_dim = model_.config().rope.rotary_dim / 2;
  const auto num_requests = static_cast<int64_t>(requests.size());
  step_memory_.push_back(Allocated(
      backend_, static_cast<size_t>(num_requests * half_dim) * sizeof(float)));
  const View frequencies =
      step_memory_.back().At(0, Dtype::kFloat32, {num_requests, half_dim});
  step_memory_.push_back(
      Allocated(backend_, static_cast<size_t>(num_requests) * sizeof(float)));
  *scale = step_memory_.back().At(0, Dtype::kFloat32, {num_requests});
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto request = static_cast<size_t>(requests[i].request);
    CHECK(!frequencies_[request].empty(), "request={} has no plan", request);
    std::memcpy(frequencies.Row<float>(static_cast<int64_t>(i)),
                frequencies_[request].data(),
                frequencies_[request].size() * sizeof(float));
    scale->As<float>()[i] = scales_[request];
  }
  return frequencies;
}

void StepDriver::Unload(const DrivenSlots::Shape& shape) {
  slots_ = std::make_unique<DrivenSlots>(backend_, layers_, shape);
  for (LayerCache& layer : layers_) {
    layer.format.slot_tokens = shape.slot_tokens;
  }
}

// Page p of request r has KV block (r * pages + p) * 5 + 3, modulo the number
// of KV blocks, made odd to 5 by counting on where it is a multiple: neighbours
// in a sequence are none in the pool.
void StepDriver::PointTables(std::span<const DrivenRows> requests) {
  const int64_t num_kv_blocks = layers_[0].page_table.entries.num_elements();
  const int64_t step = num_kv_blocks % 5 == 0 ? 3 : 5;
  CHECK(num_kv_blocks % step != 0 || num_kv_blocks == step, "num_kv_blocks={}",
        num_kv_blocks);
  for (size_t i = 0; i < requests.size(); ++i) {
    auto* row = layers_[0].page_table.Row(static_cast<int64_t>(i));
    for (int page = 0; page < pages_per_request_; ++page) {
      const int64_t index = requests[i].request * pages_per_request_ + page;
      row[page] = static_cast<uint32_t>((index * step + 3) % num_kv_blocks);
    }
    if (slots_ == nullptr) continue;
    CHECK(requests.size() == 1 && requests[0].request == 0);
    std::fill_n(row, slots_->shape().num_pages, kNotWhole);
  }
}

// What is read, and where it is.
void StepDriver::PointAt(std::span<const DrivenRows> requests,
                         ForwardArgs& args) {
  args.layers = layers_;
  if (!selectors_.empty()) Select(requests, args);
  if (slots_ == nullptr) return;
  args.slots = slots_->tables();
  args.fetch_counts = slots_->counts();
}

std::vector<float> StepDriver::Step(std::span<const DrivenRows> requests,
                                    std::span<const int> range_ends) {
  const ModelConfig& config = model_.config();
  step_memory_.clear();
  PointTables(requests);
  std::vector<int32_t> tokens, row_to_request, first_row, first_position;
  std::vector<int32_t> num_tokens, num_prefill_rows, logit_rows;
  for (const DrivenRows& rows : requests) {
    first_row.push_back(static_cast<int32_t>(tokens.size()));
    first_position.push_back(rows.first_position);
    num_tokens.push_back(static_cast<int32_t>(rows.token_ids.size()));
    num_prefill_rows.push_back(rows.num_prefill_rows);
    for (const int32_t token : rows.token_ids) {
      row_to_request.push_back(static_cast<int32_t>(first_row.size()) - 1);
      logit_rows.push_back(static_cast<int32_t>(tokens.size()));
      tokens.push_back(token);
    }
  }
  const auto num_rows = static_cast<int64_t>(tokens.size());
  ForwardArgs args;
  args.step = {.num_rows = static_cast<int>(num_rows),
               .num_requests = static_cast<int>(requests.size()),
               .row_to_request = Integers(row_to_request),
               .first_row = Integers(first_row),
               .first_position = Integers(first_position),
               .num_tokens = Integers(num_tokens),
               .num_prefill_rows = Integers(num_prefill_rows),
               .tree_parent = {}};
  args.token_ids = Integers(tokens);
  args.inverse_frequencies = PlannedRope(requests, &args.rope_scale);
  PointAt(requests, args);
  args.batch_invariant = batch_invariant;
  const auto row_floats = [&](int width) {
    step_memory_.push_back(Allocated(
        backend_, static_cast<size_t>(num_rows * width) * sizeof(float)));
    return step_memory_.back().At(0, Dtype::kFloat32, {num_rows, width});
  };
  args.hidden = row_floats(config.hidden_size);
  const View logits = row_floats(config.vocab_size);
  const Activations activations =
      Activations::Allocate(backend_, model_,
                            {.max_rows = num_rows, .max_logit_rows = num_rows})
          .value();
  std::vector<int> ends(range_ends.begin(), range_ends.end());
  ends.push_back(config.num_layers);
  for (const int end : ends) {
    args.end_layer = end;
    if (end == config.num_layers) {
      args.logit_rows = Integers(logit_rows);
      args.logits = logits;
    }
    Forward(backend_, *queue_, model_, args, activations);
    args.first_layer = end;
  }
  CHECK(backend_.Wait(backend_.Record(*queue_), kPatience).ok());
  const float* values = logits.As<float>();
  return std::vector<float>(values, values + logits.num_elements());
}

}  // namespace winnow
