#include "engine/selection/selector_set.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/selection/summary_capacity.h"

namespace winnow {
namespace {

// What the lists of a run of rows may take. A run of one row is always there.
constexpr int64_t kListBytes = int64_t{64} << 20;
// What next ranks may take, unless a row a request needs more.
constexpr int64_t kHintBytes = int64_t{16} << 20;

size_t AlignedBytes(int64_t num_bytes) {
  return static_cast<size_t>((num_bytes + 63) / 64 * 64);
}

}  // namespace

SelectorShape SelectorShapeOf(const Model& model, int max_model_len) {
  const ModelConfig& config = model.config();
  // Where that fails, loading the gates does.
  const Result<int> gate_block = Gates::ReadBlockTokens(model.folder());
  return {.num_layers = config.num_layers,
          .num_q_heads = config.num_q_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .kv_dtype = model.dtypes().kv,
          .max_context_tokens = max_model_len,
          .windows = config.windows,
          .gate_block_tokens = gate_block.ok() ? *gate_block : 0};
}

Result<std::unique_ptr<SelectorSet>> SelectorSet::Create(
    Backend& backend, const Model& model, const SelectorSetOptions& options) {
  std::unique_ptr<SelectorSet> set(new SelectorSet());
  for (const std::string& spec : options.specs) {
    auto state = std::make_unique<State>();
    ASSIGN_OR_RETURN(
        state->selector,
        MakeSelector(spec, SelectorShapeOf(model, options.max_model_len)));
    RETURN_IF_ERROR(set->Prepare(backend, model, state->selector));
    if (!state->selector.is_dense()) {
      RETURN_IF_ERROR(AllocateKept(backend, model, options, *state));
    }
    set->states_.push_back(std::move(state));
  }
  set->AddLayers(model.config().num_layers);
  if (set->size() > 0) {
    RETURN_IF_ERROR(set->AllocateLists(backend, model, options));
  }
  return set;
}

Status SelectorSet::Prepare(Backend& backend, const Model& model,
                            const Selector& selector) {
  if (selector.is_dense()) return Ok{};
  const BackendAttributes& device = backend.attributes();
  const uint32_t lacking =
      FeaturesOf(selector.program) & ~device.select_features;
  if (lacking != 0) {
    const auto feature = static_cast<SelectFeature>(lacking & (~lacking + 1));
    return MakeError(ErrorCode::kUnsupported,
                     "--select {}: {} cannot run {} yet, the CPU can",
                     selector.name, device.name, SelectFeatureName(feature));
  }
  if (selector.program.rows.kind == SummaryRows::Kind::kGate && !gates_) {
    Result<Gates> gates = Gates::Load(model.folder(), model.config());
    if (!gates.ok()) {
      return MakeError(gates.error().code, "--select {}: {}", selector.name,
                       gates.error().message);
    }
    gates_ = std::move(gates).value();
    if (!device.device_is_host) RETURN_IF_ERROR(gates_->Upload(backend));
  }
  return Ok{};
}

Status SelectorSet::AllocateKept(Backend& backend, const Model& model,
                                 const SelectorSetOptions& options,
                                 State& state) {
  const ModelConfig& config = model.config();
  const SummaryLimits limits = {.room = options.room,
                                .max_requests = options.max_requests,
                                .max_tokens = options.max_model_len};
  const auto allocate = [&backend](const SummaryCacheOptions& kept,
                                   Kept& to) -> Status {
    if (kept.layout.head_bytes == 0) return Ok{};
    to.segments = std::make_unique<KvCache>(kept.num_segments,
                                            kept.layout.segment_tokens);
    ASSIGN_OR_RETURN(to.cache, SummaryCache::Create(backend, kept));
    return Ok{};
  };
  const SummaryCacheOptions summaries =
      SummariesFor(config, state.selector, limits);
  state.segment_tokens = summaries.layout.segment_tokens;
  RETURN_IF_ERROR(allocate(summaries, state.summaries));
  state.fixed_layout = MakeFixedLayout(state.selector.program,
                                       {.num_q_heads = config.num_q_heads,
                                        .num_kv_heads = config.num_kv_heads,
                                        .k_dim = config.head_dim,
                                        .q_dtype = model.dtypes().compute});
  RETURN_IF_ERROR(allocate(FixedQueriesFor(config, state.fixed_layout, limits),
                           state.fixed_queries));
  return allocate(FixedWordsFor(config, state.fixed_layout, limits),
                  state.fixed_words);
}

void SelectorSet::AddLayers(int num_layers) {
  for (int layer = 0; layer < num_layers; ++layer) {
    const auto index = static_cast<size_t>(layer);
    for (const auto& state : states_) {
      LayerSelector selector;
      selector.program = state->selector.ForLayer(layer);
      selector.keeps_lists = state->selector.KeepsLists(layer);
      selector.reuse_layer = state->selector.ReuseLayer(layer);
      if (state->summaries) {
        selector.summaries = state->summaries.cache->layers()[index];
      }
      if (state->fixed_words) {
        const SummaryTable& words = state->fixed_words.cache->layers()[index];
        selector.fixed.layout = state->fixed_layout;
        selector.fixed.words = words.rows;
        selector.fixed.segment_stride_bytes = words.segment_stride_bytes;
        selector.fixed.segments = words.segments;
      }
      if (state->fixed_queries) {
        const SummaryTable& slots = state->fixed_queries.cache->layers()[index];
        selector.fixed.slots = slots.rows;
        selector.fixed.slot_stride_bytes = slots.segment_stride_bytes;
        selector.fixed.slot_of_request = slots.segments;
      }
      if (state->selector.program.rows.kind == SummaryRows::Kind::kGate &&
          gates_) {
        selector.gate = gates_->layer(layer);
      }
      layers_.push_back(selector);
    }
  }
}

Status SelectorSet::AllocateLists(Backend& backend, const Model& model,
                                  const SelectorSetOptions& options) {
  const int64_t num_heads = model.config().num_q_heads;
  int64_t capacity = 1;
  bool reuses = false;
  for (const auto& state : states_) {
    capacity = std::max(
        capacity, MaxPicks(state->selector.program, options.max_model_len));
    reuses = reuses || state->selector.reuses();
  }
  const int64_t row_bytes =
      num_heads * capacity * static_cast<int64_t>(sizeof(Pick));
  // Lists that other layers read too are those of all rows at once.
  const int64_t num_rows =
      reuses ? options.max_rows
             : std::clamp<int64_t>(kListBytes / row_bytes, 1, options.max_rows);
  const size_t picks_bytes = AlignedBytes(num_rows * row_bytes);
  const size_t num_picks_bytes = AlignedBytes(
      num_rows * num_heads * static_cast<int64_t>(sizeof(int32_t)));
  const size_t num_lists_bytes =
      AlignedBytes(num_rows * static_cast<int64_t>(sizeof(int32_t)));
  ASSIGN_OR_RETURN(
      lists_,
      backend.Allocate(Tier::kDevice,
                       picks_bytes + 2 * num_picks_bytes + num_lists_bytes,
                       fmt::format("lists of picks of {} rows", num_rows)));
  picks_.picks =
      lists_.At(0, Dtype::kUInt32, {num_rows, num_heads, capacity, 2});
  picks_.num_picks =
      lists_.At(picks_bytes, Dtype::kInt32, {num_rows, num_heads});
  picks_.num_lists =
      lists_.At(picks_bytes + num_picks_bytes, Dtype::kInt32, {num_rows});
  if (reuses) {
    picks_.num_kept = lists_.At(picks_bytes + num_picks_bytes + num_lists_bytes,
                                Dtype::kInt32, {num_rows, num_heads});
  }
  return AllocateEstimates(backend, model, options, num_rows);
}

// Enough for steps of decode rows alone, and for more where they are small.
Status SelectorSet::AddHints(Backend& backend, const Model& model,
                             const SelectorSetOptions& options,
                             const HintOptions& hints) {
  constexpr auto kNextRanks = static_cast<uint32_t>(SelectFeature::kNextRanks);
  if (hints.budget_times <= 1 ||
      (backend.attributes().select_features & kNextRanks) == 0) {
    return Ok{};
  }
  const int64_t num_heads = model.config().num_q_heads;
  int64_t capacity = 1;
  for (const auto& state : states_) {
    capacity = std::max(
        capacity,
        MaxPicks(WithBudgetTimes(state->selector.program, hints.budget_times),
                 options.max_model_len));
  }
  const int64_t row_bytes =
      num_heads * capacity * static_cast<int64_t>(sizeof(Pick));
  const int64_t num_rows = std::clamp<int64_t>(
      kHintBytes / row_bytes,
      std::min<int64_t>(options.max_requests, picks_.num_rows()),
      picks_.num_rows());
  const size_t picks_bytes = AlignedBytes(num_rows * row_bytes);
  const size_t counts_bytes = AlignedBytes(
      num_rows * num_heads * static_cast<int64_t>(sizeof(int32_t)));
  ASSIGN_OR_RETURN(
      hint_lists_,
      backend.Allocate(Tier::kDevice, picks_bytes + 2 * counts_bytes,
                       fmt::format("next ranks of {} rows", num_rows)));
  hints_.picks =
      hint_lists_.At(0, Dtype::kUInt32, {num_rows, num_heads, capacity, 2});
  hints_.num_picks =
      hint_lists_.At(picks_bytes, Dtype::kInt32, {num_rows, num_heads});
  hints_.num_lists =
      hint_lists_.At(picks_bytes + counts_bytes, Dtype::kInt32, {num_rows});
  hint_options_ = hints;
  return Ok{};
}

Status SelectorSet::AllocateEstimates(Backend& backend, const Model& model,
                                      const SelectorSetOptions& options,
                                      int64_t num_rows) {
  int64_t capacity = 0;
  for (const auto& state : states_) {
    capacity = std::max(
        capacity, MaxEstimates(state->selector.program, options.max_model_len));
  }
  if (capacity == 0) return Ok{};
  const int64_t num_heads = model.config().num_q_heads;
  const int64_t width = num_heads * model.config().head_dim;
  constexpr int64_t kWordBytes = 4;  // of all that stands here
  const size_t lists_bytes =
      AlignedBytes(num_rows * num_heads * capacity * kWordBytes);
  const size_t counts_bytes = AlignedBytes(num_rows * num_heads * kWordBytes);
  const size_t out_bytes = AlignedBytes(options.max_rows * width * kWordBytes);
  const size_t lse_bytes =
      AlignedBytes(options.max_rows * num_heads * kWordBytes);
  ASSIGN_OR_RETURN(
      estimates_,
      backend.Allocate(Tier::kDevice,
                       lists_bytes + counts_bytes + 2 * (out_bytes + lse_bytes),
                       fmt::format("estimates of {} rows", options.max_rows)));
  picks_.estimates =
      estimates_.At(0, Dtype::kInt32, {num_rows, num_heads, capacity});
  picks_.num_estimates =
      estimates_.At(lists_bytes, Dtype::kInt32, {num_rows, num_heads});
  size_t offset = lists_bytes + counts_bytes;
  for (size_t part = 0; part < 2; ++part) {
    outs_[part] =
        estimates_.At(offset, Dtype::kFloat32, {options.max_rows, width});
    offset += out_bytes;
    lses_[part] =
        estimates_.At(offset, Dtype::kFloat32, {options.max_rows, num_heads});
    offset += lse_bytes;
  }
  return Ok{};
}

int64_t SelectorSet::NumSegments(int index, int64_t num_tokens) const {
  const State& state = StateOf(index);
  return state.summaries ? PagesFor(num_tokens, state.segment_tokens) : 0;
}

int64_t SelectorSet::NumFullSegments(int index, int64_t num_tokens) const {
  const State& state = StateOf(index);
  return state.summaries ? num_tokens / state.segment_tokens : 0;
}

std::vector<int64_t> SelectorSet::NumPromisableSegments() const {
  std::vector<int64_t> segments;
  for (const auto& state : states_) {
    const KvCache* of = state->summaries.segments.get();
    segments.push_back(of == nullptr ? 0 : of->num_pages() + of->NumRepeated());
  }
  return segments;
}

bool SelectorSet::CanGrow(int index, std::span<const Growth> totals) const {
  const Kept& kept = StateOf(index).summaries;
  if (!kept) return true;
  std::vector<Growth> growths;
  for (const auto& [id, num_tokens] : totals) {
    growths.push_back(
        {id, std::max(0, num_tokens - kept.segments->num_tokens(id))});
  }
  return kept.segments->CanGrow(growths);
}

void SelectorSet::Close(int index, SequenceId id) {
  for (const Kept* kept : StateOf(index).kept()) {
    if (*kept) kept->segments->Close(id);
  }
  StateOf(index).first_made.erase(id);
}

void SelectorSet::Grow(Queue& queue, int index, SequenceId id, int num_tokens) {
  for (const Kept* kept : StateOf(index).kept()) {
    if (!*kept) continue;
    const std::array<Growth, 1> growth = {
        {{id, num_tokens - kept->segments->num_tokens(id)}}};
    std::optional<Reservation> room = kept->segments->Reserve(growth);
    CHECK(room.has_value(), "selector={} sequence={} num_tokens={}",
          selector(index).name, id.value(), num_tokens);
    kept->cache->Apply(queue, room->copies());
    room->Commit();
  }
}

void SelectorSet::Seal(int index, SequenceId id, int num_tokens) {
  for (const Kept* kept : StateOf(index).kept()) {
    if (*kept) kept->segments->Seal(id, num_tokens);
  }
  StateOf(index).first_made.erase(id);
}

void SelectorSet::Truncate(int index, SequenceId id, int num_tokens) {
  for (const Kept* kept : StateOf(index).kept()) {
    if (*kept) kept->segments->Truncate(id, num_tokens);
  }
}

int SelectorSet::num_summarized(int index, SequenceId id) const {
  const auto made = StateOf(index).first_made.find(id);
  if (made != StateOf(index).first_made.end()) return made->second;
  for (const Kept* kept : StateOf(index).kept()) {
    if (*kept) return kept->segments->num_sealed(id);
  }
  return 0;
}

bool SelectorSet::Completes(int index, int first, int end) const {
  const SelectProgram& program = StateOf(index).selector.program;
  if (program.fixed.kind != FixedChoice::Kind::kNone) return true;
  return std::ranges::any_of(std::array{&program.rows, &program.normalizer},
                             [&](const SummaryRows* rows) {
                               return NumVisibleRows(*rows, first) !=
                                      NumVisibleRows(*rows, end);
                             });
}

int64_t SelectorSet::FirstTokenToRead(int index, SequenceId id,
                                      int num_computed) const {
  const State& state = StateOf(index);
  for (const Kept* kept : state.kept()) {
    if (*kept && kept->segments->num_sealed(id) < num_computed) return 0;
  }
  return FirstUnsummarized(index, num_computed);
}

int64_t SelectorSet::FirstUnsummarized(int index, int num_tokens) const {
  const SelectProgram& program = StateOf(index).selector.program;
  int64_t first = num_tokens;
  for (const SummaryRows* rows : {&program.rows, &program.normalizer}) {
    if (rows->kind == SummaryRows::Kind::kNone) continue;
    first = std::min(first, NumVisibleRows(*rows, num_tokens) * rows->stride);
  }
  return first;
}

void SelectorSet::WriteTables(Queue& queue,
                              std::span<const StepRequest> requests) {
  for (int index = 0; index < size(); ++index) {
    for (const Kept* kept : StateOf(index).kept()) {
      if (!*kept) continue;
      std::vector<std::span<const KvBlockId>> tables;
      for (const StepRequest& request : requests) {
        tables.push_back(request.selector == index
                             ? kept->segments->pages(request.id)
                             : std::span<const KvBlockId>());
      }
      kept->cache->WriteTables(queue, tables);
    }
  }
}

Selection SelectorSet::selection() const {
  return {.selectors = layers_,
          .num_selectors = size(),
          .first_token = {},
          .read_shares = {},
          .picks = picks_,
          .hints = hints_,
          .hint_budget_times = hint_options_.budget_times,
          .least_hint_age = hint_options_.least_age,
          .outs = outs_,
          .lses = lses_};
}

}  // namespace winnow
