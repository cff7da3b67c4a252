#include "engine/selector_set.h"

#include <algorithm>
#include <array>
#include <utility>

namespace winnow {
namespace {

// What the lists of a run of rows may take. A run of one row is always there.
constexpr int64_t kListBytes = int64_t{64} << 20;

size_t Aligned(int64_t num_bytes) {
  return static_cast<size_t>((num_bytes + 63) / 64 * 64);
}

}  // namespace

SelectorShape SelectorShapeOf(const Model& model, int max_model_len) {
  const ModelConfig& config = model.config();
  return {.num_layers = config.num_layers,
          .num_q_heads = config.num_q_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .kv_dtype = model.dtype(),
          .max_context_tokens = max_model_len,
          .windows = config.windows};
}

Result<std::unique_ptr<SelectorSet>> SelectorSet::Create(
    Backend& backend, const Model& model, const SelectorSetOptions& options) {
  const ModelConfig& config = model.config();
  std::unique_ptr<SelectorSet> set(new SelectorSet());
  for (const std::string& spec : options.specs) {
    auto state = std::make_unique<State>();
    ASSIGN_OR_RETURN(
        state->selector,
        MakeSelector(spec, SelectorShapeOf(model, options.max_model_len)));
    const SummaryLayout layout =
        MakeSummaryLayout(state->selector.program, config.head_dim);
    if (layout.head_bytes > 0 && !state->selector.is_dense()) {
      const int per_sequence = static_cast<int>(
          PagesFor(options.max_model_len, layout.segment_tokens));
      const int64_t num_segments =
          int64_t{per_sequence} * options.max_sequences;
      if (num_segments > kMaxExtents) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "max-num-seqs and max-model-len must need at most {} "
                         "segments of summaries, need {} ({} sequences of {} "
                         "tokens)",
                         kMaxExtents, num_segments, options.max_sequences,
                         options.max_model_len);
      }
      state->segments =
          std::make_unique<KvCache>(num_segments, layout.segment_tokens);
      ASSIGN_OR_RETURN(
          state->cache,
          SummaryCache::Create(backend,
                               {.layout = layout,
                                .num_layers = config.num_layers,
                                .num_kv_heads = config.num_kv_heads,
                                .num_segments = num_segments,
                                .max_requests = options.max_requests,
                                .max_segments_per_request = per_sequence}));
    }
    set->states_.push_back(std::move(state));
  }
  for (int layer = 0; layer < config.num_layers; ++layer) {
    for (const auto& state : set->states_) {
      LayerSelector selector;
      selector.program = state->selector.ForLayer(layer);
      selector.keeps_lists = state->selector.KeepsLists(layer);
      selector.reuse_layer = state->selector.ReuseLayer(layer);
      if (state->cache != nullptr) {
        selector.summaries = state->cache->layers()[static_cast<size_t>(layer)];
      }
      set->layers_.push_back(selector);
    }
  }
  if (set->size() > 0) {
    RETURN_IF_ERROR(set->AllocateLists(backend, model, options));
  }
  return set;
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
  const size_t picks_bytes = Aligned(num_rows * row_bytes);
  const size_t num_picks_bytes =
      Aligned(num_rows * num_heads * static_cast<int64_t>(sizeof(int32_t)));
  const size_t num_lists_bytes =
      Aligned(num_rows * static_cast<int64_t>(sizeof(int32_t)));
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
  return Ok{};
}

void SelectorSet::Open(int index, SequenceId id) {
  if (KvCache* segments = StateOf(index).segments.get()) segments->Open(id);
}

void SelectorSet::Fork(int index, SequenceId parent, SequenceId id) {
  KvCache* segments = StateOf(index).segments.get();
  if (segments == nullptr) return;
  if (segments->is_open(parent)) {
    segments->Fork(parent, id);
  } else {
    segments->Open(id);
  }
}

void SelectorSet::Close(int index, SequenceId id) {
  if (KvCache* segments = StateOf(index).segments.get()) segments->Close(id);
}

void SelectorSet::Grow(Queue& queue, int index, SequenceId id, int num_tokens) {
  const State& state = StateOf(index);
  if (state.segments == nullptr) return;
  const std::array<Growth, 1> growth = {
      {{id, num_tokens - state.segments->num_tokens(id)}}};
  std::optional<Reservation> room = state.segments->Reserve(growth);
  CHECK(room.has_value(), "selector={} sequence={} num_tokens={}",
        state.selector.name, id.value(), num_tokens);
  state.cache->Apply(queue, room->copies());
  room->Commit();
}

void SelectorSet::Seal(int index, SequenceId id, int num_tokens) {
  if (KvCache* segments = StateOf(index).segments.get()) {
    segments->Seal(id, num_tokens);
  }
}

int SelectorSet::num_summarized(int index, SequenceId id) const {
  const KvCache* segments = StateOf(index).segments.get();
  return segments == nullptr ? 0 : segments->num_sealed(id);
}

void SelectorSet::WriteTables(Queue& queue,
                              std::span<const StepRequest> requests) {
  for (int index = 0; index < size(); ++index) {
    const State& state = StateOf(index);
    if (state.cache == nullptr) continue;
    std::vector<std::span<const ExtentId>> tables;
    for (const StepRequest& request : requests) {
      tables.push_back(request.selector == index
                           ? state.segments->pages(request.id)
                           : std::span<const ExtentId>());
    }
    state.cache->WriteTables(queue, tables);
  }
}

Selection SelectorSet::selection() const {
  return {.selectors = layers_,
          .num_selectors = size(),
          .first_token = {},
          .read_shares = {},
          .picks = picks_};
}

}  // namespace winnow
