#include "model/forward/transformer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace winnow {
namespace {

// What every part of one Forward shares.
struct Pass {
  Backend& backend;
  Queue& queue;
  const Model& model;
  const ForwardArgs& args;
  const Activations::Views& views;

  const ModelConfig& config() const { return model.config(); }

  RmsNormArgs Norm(const View& x, const View& weight, const View& out) const {
    return {
        .x = x, .weight = weight, .epsilon = config().rms_epsilon, .out = out};
  }
  // The products of the residual stream, normalised, into columns of `out`.
  void ProjectHidden(const View& norm_weight, const JoinedWeights& weights,
                     const View& out,
                     const std::optional<GatedActArgs>& act = {}) const {
    const LinearParts parts(weights, out);
    backend.Linear(queue, {.x = views.normed,
                           .parts = parts.all(),
                           .residual = {},
                           .batch_invariant = args.batch_invariant,
                           .norm = Norm(args.hidden, norm_weight, views.normed),
                           .gated_act = act});
  }
  // Adds a branch's last product to the residual stream.
  void ProjectIntoResidual(const View& x, const LinearWeights& weights) const {
    const std::array<LinearPart, 1> parts = {
        {{.weight = weights.matrix, .bias = weights.bias, .out = args.hidden}}};
    backend.Linear(queue, {.x = x,
                           .parts = parts,
                           .residual = args.hidden,
                           .scale = config().residual_scale,
                           .batch_invariant = args.batch_invariant});
  }
};

// True where a selector of the step chooses in this layer.
bool Chooses(const Selection& selection, int layer) {
  return std::ranges::any_of(selection.OfLayer(layer),
                             [](const LayerSelector& selector) {
                               return selector.program != nullptr;
                             });
}

// True where a selector of the layer acts in prompts.
bool ChoosesInPrompt(std::span<const LayerSelector> selectors) {
  return std::ranges::any_of(selectors, [](const LayerSelector& selector) {
    return selector.program != nullptr && selector.program->in_prompt;
  });
}

// What a run of rows may want next, where some of the step's pages are not
// whole; else empty.
NextRanks HintsOf(const Pass& pass, const LayerStep& step,
                  const PickLists& picks) {
  const Selection& selection = pass.args.selection;
  if (pass.args.slots.empty() || selection.hints.picks.empty() ||
      !step.has_decode_rows || picks.num_rows() > selection.hints.num_rows()) {
    return {};
  }
  NextRanks next = {.lists = selection.hints.Rows(0, picks.num_rows()),
                    .budget_times = selection.hint_budget_times,
                    .slots = &pass.args.slots[static_cast<size_t>(step.layer)]};
  next.lists.first_row = picks.first_row;
  return next;
}

// Reads one source, after what is missing of it has been fetched.
void FetchAndAttend(const Pass& pass, const LayerStep& step, AttendArgs read,
                    const PickLists& hints, const LayerCache& cache) {
  if (!pass.args.slots.empty() && step.has_decode_rows) {
    const auto layer = static_cast<size_t>(step.layer);
    read.slots = &pass.args.slots[layer];
    FetchArgs fetch;
    fetch.source = read.sources[0];
    fetch.slots = read.slots;
    fetch.hints = hints;
    fetch.least_hint_age = pass.args.selection.least_hint_age;
    if (!pass.args.fetch_counts.empty()) {
      fetch.counts = pass.args.fetch_counts[layer];
    }
    pass.backend.Fetch(pass.queue, step, fetch, cache);
  }
  pass.backend.Attend(pass.queue, step, read, cache);
}

// What of a layer's selectors is true of one at least.
bool HasClusters(std::span<const LayerSelector> selectors) {
  return std::ranges::any_of(selectors, [](const LayerSelector& selector) {
    return selector.program != nullptr &&
           selector.program->rows.kind == SummaryRows::Kind::kClusters;
  });
}

// True where a selector of the layer reads what its clusters say.
bool Estimates(std::span<const LayerSelector> selectors) {
  return std::ranges::any_of(selectors, [](const LayerSelector& selector) {
    return selector.program != nullptr && selector.program->estimate.value > 0;
  });
}

// Attention over a run's picks and over its estimates, merged.
void AttendBoth(const Pass& pass, const LayerStep& step, const AttendArgs& read,
                const PickLists& hints, const LayerCache& cache) {
  const Selection& selection = pass.args.selection;
  const PickLists& lists = read.sources[0].picks;
  std::array<View, 2> outs, lses;
  for (size_t part = 0; part < 2; ++part) {
    outs[part] = selection.outs[part]
                     .Slice(0, step.num_rows)
                     .SplitColumns(static_cast<int>(read.q.dim(1)));
    lses[part] = selection.lses[part].Slice(0, step.num_rows);
    const AttendSource source = {.kind = part == 0
                                             ? AttendSource::Kind::kPicks
                                             : AttendSource::Kind::kEstimates,
                                 .picks = lists,
                                 .selectors = selection.OfLayer(step.layer)};
    AttendArgs of_part = read;
    of_part.sources = std::span(&source, 1);
    of_part.out = outs[part];
    of_part.lse = lses[part];
    if (part == 0) {
      FetchAndAttend(pass, step, of_part, hints, cache);
    } else {
      pass.backend.Attend(pass.queue, step, of_part, cache);
    }
  }
  pass.backend.MergeStates(pass.queue, step,
                           {.outs = outs,
                            .lses = lses,
                            .first_row = lists.first_row,
                            .num_rows = lists.num_rows(),
                            .out = read.out});
}

// The lists of watched rows among those of a run.
void CopyWatchedLists(const Pass& pass, int layer, const PickLists& run) {
  const WatchedRows& watched = pass.args.watched;
  for (size_t i = 0; i < watched.rows.size(); ++i) {
    const int row = watched.rows[i];
    if (row < run.first_row || row >= run.first_row + run.num_rows()) continue;
    const PickLists from = run.Rows(row, 1);
    const PickLists to =
        watched.lists[static_cast<size_t>(layer)].Rows(static_cast<int>(i), 1);
    pass.backend.Copy(pass.queue, from.picks, to.picks);
    pass.backend.Copy(pass.queue, from.num_picks, to.num_picks);
    pass.backend.Copy(pass.queue, from.num_lists, to.num_lists);
  }
}

// Run after run of rows: its lists, and what they name. The lists of all rows
// stand in memory at once where a later layer reads them.
void AttendChosenRows(const Pass& pass, const LayerStep& step,
                      const TokenInputs& inputs, AttendArgs read,
                      const LayerCache& cache) {
  const Selection& selection = pass.args.selection;
  const auto selectors = selection.OfLayer(step.layer);
  const int most_rows = selection.picks.num_rows();
  const bool all_rows = step.has_prefill_rows || most_rows >= step.num_rows;
  const int end_row = all_rows ? step.num_rows : selection.end_row;
  AttendSource source = {.kind = AttendSource::Kind::kPicks, .picks = {}};
  read.sources = std::span(&source, 1);
  for (int row = all_rows ? 0 : selection.first_row; row < end_row;
       row += most_rows) {
    const int num_rows = std::min(most_rows, end_row - row);
    source.picks = selection.picks.Rows(0, num_rows);
    source.picks.first_row = row;
    const NextRanks next = HintsOf(pass, step, source.picks);
    pass.backend.Select(pass.queue, step,
                        {.selectors = selectors,
                         .q = read.q,
                         .scale = read.scale,
                         .q_pre = inputs.q_pre,
                         .cos_sin = inputs.cos_sin,
                         .first_token = selection.first_new_token,
                         .picks = source.picks,
                         .read_shares = selection.read_shares,
                         .next = next},
                        cache);
    CopyWatchedLists(pass, step.layer, source.picks);
    // Estimates are decode rows' alone.
    if (step.has_decode_rows && Estimates(selectors)) {
      LayerStep generated = step;
      generated.has_prefill_rows = false;
      AttendBoth(pass, generated, read, next.lists, cache);
      if (!step.has_prefill_rows) continue;
      LayerStep prompt = step;
      prompt.has_decode_rows = false;
      pass.backend.Attend(pass.queue, prompt, read, cache);
      continue;
    }
    FetchAndAttend(pass, step, read, next.lists, cache);
  }
}

// Summaries; then what rows read: prefill rows everything, in one Attend,
// unless a selector of the layer acts in prompts. `read` reads all pages.
void AttendChosen(const Pass& pass, const LayerStep& step,
                  const TokenInputs& inputs, const AttendArgs& read,
                  const LayerCache& cache) {
  const Selection& selection = pass.args.selection;
  const auto selectors = selection.OfLayer(step.layer);
  if (selection.completes_summaries) {
    pass.backend.Summarize(
        pass.queue, step,
        {.selectors = selectors,
         .first_token = selection.first_token,
         .q = read.q,
         .scale = read.scale,
         .inverse_frequencies = pass.args.inverse_frequencies,
         .rope_scale = pass.args.rope_scale},
        cache);
  }
  if (HasClusters(selectors)) {
    pass.backend.ClusterKeys(
        pass.queue, step,
        {.selectors = selectors, .first_token = selection.first_token}, cache);
  }
  LayerStep chosen = step;
  if (step.has_prefill_rows && !ChoosesInPrompt(selectors)) {
    LayerStep prompt = step;
    prompt.has_decode_rows = false;
    pass.backend.Attend(pass.queue, prompt, read, cache);
    chosen.has_prefill_rows = false;
  }
  if (!chosen.has_prefill_rows && !chosen.has_decode_rows) return;
  AttendChosenRows(pass, chosen, inputs, read, cache);
}

// hidden += scale * o(attention(norm(hidden))).
void Attend(const Pass& pass, const LayerStep& step) {
  const ModelConfig& config = pass.config();
  const auto index = static_cast<size_t>(step.layer);
  const LayerWeights& weights = pass.model.weights().layers[index];
  const Activations::Views& views = pass.views;
  pass.ProjectHidden(weights.input_norm, weights.qkv, views.qkv);
  const View q = views.q.SplitColumns(config.num_q_heads);
  const View k = views.k.SplitColumns(config.num_kv_heads);
  if (!weights.q_norm.empty()) {
    pass.backend.RmsNorm(pass.queue, pass.Norm(q, weights.q_norm, q));
    pass.backend.RmsNorm(pass.queue, pass.Norm(k, weights.k_norm, k));
  }
  const TokenInputs inputs = {
      .x = views.normed,
      .q = q,
      .q_pre = views.q_pre.empty()
                   ? View{}
                   : views.q_pre.SplitColumns(config.num_q_heads),
      .k = k,
      .v = views.v.SplitColumns(config.num_kv_heads),
      .cos_sin = views.cos_sin,
  };
  const LayerCache& cache = pass.args.layers[index];
  pass.backend.Append(pass.queue, step, inputs, cache);
  const AttendSource source;
  const AttendArgs read = {
      .q = q,
      .sources = std::span(&source, 1),
      .scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim)),
      .out = views.attended.SplitColumns(config.num_q_heads),
      .lse = {},
      .ahead = weights.o.matrix.codes,
      .batch_invariant = pass.args.batch_invariant,
  };
  if (Chooses(pass.args.selection, step.layer)) {
    AttendChosen(pass, step, inputs, read, cache);
  } else {
    FetchAndAttend(pass, step, read, {}, cache);
  }
  pass.ProjectIntoResidual(views.attended, weights.o);
}

// hidden += scale * down(activation(gate(x)) * up(x)), x = norm(hidden).
void FeedForward(const Pass& pass, const LayerWeights& weights) {
  const Activations::Views& views = pass.views;
  pass.ProjectHidden(weights.post_attention_norm, weights.gate_up,
                     views.gate_up,
                     GatedActArgs{.activation = pass.config().activation,
                                  .gate = views.gate,
                                  .up = views.up,
                                  .out = views.gate});
  pass.ProjectIntoResidual(views.gate, weights.down);
}

int64_t NumWanted(const ForwardArgs& args) {
  return args.logit_rows.empty() ? 0 : args.logit_rows.dim(0);
}

void CheckForward(const ModelConfig& config, const ForwardArgs& args) {
  CHECK(0 <= args.first_layer && args.first_layer <= args.end_layer &&
            args.end_layer <= config.num_layers,
        "first_layer={} end_layer={} num_layers={}", args.first_layer,
        args.end_layer, config.num_layers);
  CHECK(static_cast<int>(args.layers.size()) == config.num_layers,
        "layers={} num_layers={}", args.layers.size(), config.num_layers);
  CHECK((args.slots.empty() || args.slots.size() == args.layers.size()) &&
            (args.fetch_counts.empty() ||
             args.fetch_counts.size() == args.layers.size()),
        "slots={} fetch_counts={} layers={}", args.slots.size(),
        args.fetch_counts.size(), args.layers.size());
  CHECK(args.hidden.dtype == Dtype::kFloat32 && args.hidden.rank == 2 &&
            args.hidden.dim(0) == args.step.num_rows &&
            args.hidden.dim(1) == config.hidden_size,
        "hidden {} rows={} hidden_size={}", ToString(args.hidden),
        args.step.num_rows, config.hidden_size);
  if (args.first_layer == 0) {
    CHECK(
        args.token_ids.rank == 1 && args.token_ids.dim(0) == args.step.num_rows,
        "token_ids {} rows={}", ToString(args.token_ids), args.step.num_rows);
  }
  CHECK(args.inverse_frequencies.rank == 2 &&
            args.inverse_frequencies.dim(1) * 2 == config.rope.rotary_dim,
        "inverse_frequencies {} rotary_dim={}",
        ToString(args.inverse_frequencies), config.rope.rotary_dim);
  const bool ends = args.end_layer == config.num_layers;
  CHECK(NumWanted(args) == 0 || (ends && args.logits.rank == 2 &&
                                 args.logits.dim(0) == NumWanted(args) &&
                                 args.logits.dim(1) == config.vocab_size),
        "logits {} wanted={} vocab={} end_layer={}", ToString(args.logits),
        NumWanted(args), config.vocab_size, args.end_layer);
}

}  // namespace

void Forward(Backend& backend, Queue& queue, const Model& model,
             const ForwardArgs& args, const Activations& activations) {
  const ModelConfig& config = model.config();
  CheckForward(config, args);
  const Activations::Views views =
      activations.For(args.step.num_rows, NumWanted(args));
  const Pass pass = {backend, queue, model, args, views};
  if (args.first_layer == 0) {
    backend.Embed(queue, {.token_ids = args.token_ids,
                          .table = model.weights().embedding,
                          .scale = config.embedding_scale,
                          .out = args.hidden});
  }
  if (args.first_layer < args.end_layer) {
    backend.RotaryAngles(queue, args.step,
                         {.inverse_frequencies = args.inverse_frequencies,
                          .scale = args.rope_scale,
                          .out = views.cos_sin});
  }
  for (int layer = args.first_layer; layer < args.end_layer; ++layer) {
    const auto index = static_cast<size_t>(layer);
    LayerStep step = args.step;
    step.layer = layer;
    step.window = config.windows[index];
    Attend(pass, step);
    FeedForward(pass, model.weights().layers[index]);
  }
  if (args.end_layer == config.num_layers && NumWanted(args) > 0) {
    EnqueueLogits(backend, queue, model,
                  {.hidden = args.hidden,
                   .rows = args.logit_rows,
                   .logits = args.logits,
                   .batch_invariant = args.batch_invariant},
                  activations);
  }
}

// Of the wanted rows, and of no others: the vocabulary is wide.
void EnqueueLogits(Backend& backend, Queue& queue, const Model& model,
                   const LogitArgs& args, const Activations& activations) {
  const Activations::Views views =
      activations.For(args.hidden.dim(0), args.rows.dim(0));
  backend.GatherRows(
      queue, {.x = args.hidden, .indices = args.rows, .out = views.gathered});
  const std::array<LinearPart, 1> parts = {
      {{.weight = model.weights().lm_head, .bias = {}, .out = args.logits}}};
  backend.Linear(queue,
                 {.x = views.gathered_norm,
                  .parts = parts,
                  .residual = {},
                  .scale = model.config().logit_scale,
                  .batch_invariant = args.batch_invariant,
                  .norm = RmsNormArgs{.x = views.gathered,
                                      .weight = model.weights().final_norm,
                                      .epsilon = model.config().rms_epsilon,
                                      .out = views.gathered_norm}});
}

}  // namespace winnow
