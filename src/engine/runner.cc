#include "engine/runner.h"

#include <algorithm>

#include "engine/replay_key.h"

namespace winnow {
namespace {

// A step that takes longer than this has hung, whatever the device.
constexpr std::chrono::minutes kStepTimeout(30);

size_t TableBytes(const RunnerOptions& options, const ModelConfig& config) {
  const auto rows = static_cast<size_t>(options.max_rows);
  const auto requests = static_cast<size_t>(options.max_requests);
  const auto rotary = static_cast<size_t>(config.rope.rotary_dim);
  const int max_seen = std::min(options.max_model_len, config.vocab_size);
  constexpr size_t kAlignmentSlack = 4096;
  return rows * 2 * sizeof(int32_t) + requests * 10 * sizeof(int32_t) +
         requests * (rotary / 2) * sizeof(float) + requests * kAlignmentSlack +
         Sampler::MaxTableBytes(options.max_requests, max_seen,
                                config.vocab_size) +
         (options.max_scored_rows > 0
              ? PromptScorer::MaxTableBytes(options.max_rows)
              : 0);
}

}  // namespace

Runner::Runner(Backend& backend, const Model& model, DeviceCache& cache,
               SelectorSet& selectors, const RunnerOptions& options,
               StepTables tables)
    : backend_(backend),
      model_(model),
      cache_(cache),
      selectors_(selectors),
      options_(options),
      tables_(std::move(tables)),
      queue_(backend.MakeQueue()) {}

Result<std::unique_ptr<Runner>> Runner::Create(
    Backend& backend, const Model& model, DeviceCache& cache,
    SelectorSet& selectors, const FarPages& far, const RunnerOptions& options) {
  CHECK(options.max_rows > 0 && options.max_requests > 0,
        "max_rows={} max_requests={}", options.max_rows, options.max_requests);
  ASSIGN_OR_RETURN(
      StepTables tables,
      StepTables::Create(backend, TableBytes(options, model.config())));
  std::unique_ptr<Runner> runner(
      new Runner(backend, model, cache, selectors, options, std::move(tables)));
  runner->far_ = far;
  RETURN_IF_ERROR(runner->AllocateWorkspace());
  return runner;
}

Status Runner::AllocateWorkspace() {
  const ModelConfig& config = model_.config();
  const size_t hidden_bytes = static_cast<size_t>(options_.max_rows) *
                              static_cast<size_t>(config.hidden_size) *
                              sizeof(float);
  ASSIGN_OR_RETURN(
      hidden_, backend_.Allocate(Tier::kDevice, hidden_bytes, "hidden states"));
  ASSIGN_OR_RETURN(activations_,
                   Activations::Allocate(
                       backend_, model_,
                       {.max_rows = options_.max_rows,
                        .max_logit_rows = std::max(options_.max_requests,
                                                   options_.max_scored_rows),
                        .keeps_q_pre = selectors_.has_gates()}));
  ASSIGN_OR_RETURN(sampler_, Sampler::Create(backend_, config.vocab_size,
                                             options_.max_requests));
  if (selectors_.size() > 0) {
    const size_t num_bytes =
        static_cast<size_t>(options_.max_rows) * sizeof(float);
    ASSIGN_OR_RETURN(shares_, backend_.Allocate(Tier::kDevice, num_bytes,
                                                "shares that rows read"));
    ASSIGN_OR_RETURN(host_shares_,
                     backend_.Allocate(Tier::kHost, num_bytes,
                                       "shares that rows read, host"));
  }
  if (options_.watch.max_rows > 0) {
    ASSIGN_OR_RETURN(watch_, ReadWatch::Create(backend_, model_, selectors_,
                                               options_.watch));
  }
  if (options_.max_scored_rows > 0) {
    ASSIGN_OR_RETURN(scorer_, PromptScorer::Create(
                                  backend_, model_,
                                  {.max_rows = options_.max_rows,
                                   .max_run_rows = options_.max_scored_rows}));
  }
  if (options_.layer_ranges) {
    ASSIGN_OR_RETURN(store_, HiddenStore::Create(backend_, options_.max_rows,
                                                 config.hidden_size));
  }
  return Ok{};
}

Status Runner::Drain() {
  return backend_.Wait(backend_.Record(*queue_), kStepTimeout);
}

void Runner::CopyPages(std::span<const ExtentCopy> copies) {
  if (!copies.empty()) cache_.Apply(*queue_, copies);
}

void Runner::Forget(SequenceId id) {
  if (store_) store_->Release(id);
}

Result<StepOutput> Runner::Run(const StepPlan& plan, const KvCache& kv,
                               const SequenceOf& sequence_of) {
  CHECK(NumRows(plan) <= options_.max_rows, "rows={} max_rows={}",
        NumRows(plan), options_.max_rows);
  StepOutput output;
  const std::span<const StepItem> items = plan.items;
  size_t begin = 0;
  while (begin < items.size()) {
    size_t end = begin + 1;
    while (end < items.size() &&
           items[end].first_layer == items[begin].first_layer &&
           items[end].end_layer == items[begin].end_layer &&
           items[end].layerwise == items[begin].layerwise) {
      ++end;
    }
    Group group = Gather(items.subspan(begin, end - begin), kv, sequence_of);
    RETURN_IF_ERROR(RunGroup(group, &output));
    begin = end;
  }
  return output;
}

Runner::Group Runner::Gather(std::span<const StepItem> items, const KvCache& kv,
                             const SequenceOf& sequence_of) {
  tables_.Clear();
  Group group;
  group.items = items;
  for (const StepItem& item : items) {
    group.sequences.push_back(&sequence_of(item.sequence));
    if (item.samples) group.sampling.push_back(group.sequences.back());
  }
  GatherPages(group, kv);
  GatherRows(group);
  GatherRope(group);
  GatherSelection(group);
  GatherWatched(group);
  ForwardArgs& args = group.args;
  args.first_layer = items.front().first_layer;
  args.end_layer = items.front().end_layer;
  args.hidden = hidden_.At(0, Dtype::kFloat32,
                           {args.step.num_rows, model_.config().hidden_size});
  args.logits = sampler_->logits(static_cast<int>(group.sampling.size()));
  args.batch_invariant = options_.batch_invariant;
  tables_.Flush(*queue_);
  return group;
}

void Runner::GatherPages(Group& group, const KvCache& kv) {
  if (group.is_layerwise()) {
    far_.layerwise->WriteTables(*queue_, group.items.front().first_layer,
                                group.sequences);
    group.args.layers = far_.layerwise->layers();
    return;
  }
  std::vector<std::span<const ExtentId>> pages;
  for (const StepItem& item : group.items) {
    pages.push_back(kv.pages(item.sequence));
  }
  cache_.WriteTables(*queue_, pages);
  group.args.layers = cache_.layers();
  GatherSlots(group);
}

void Runner::GatherSlots(Group& group) {
  if (far_.slots == nullptr) return;
  std::vector<SequenceId> ids;
  for (const Sequence* sequence : group.sequences) {
    ids.push_back(sequence->id());
  }
  if (!far_.slots->WriteTables(*queue_, ids)) return;
  group.args.slots = far_.slots->layers();
  group.args.bring_counts = far_.slots->counts();
}

View Runner::PutIntegers(const std::vector<int32_t>& values) {
  return tables_.Put(std::span<const int32_t>(values),
                     {static_cast<int64_t>(values.size())});
}

void Runner::GatherRows(Group& group) {
  std::vector<int32_t> token_ids, row_to_request, first_row, first_position,
      num_tokens, num_prompt_rows, logit_rows;
  for (size_t i = 0; i < group.items.size(); ++i) {
    const StepItem& item = group.items[i];
    const Sequence& sequence = *group.sequences[i];
    const auto first = sequence.tokens().begin() + item.first_token;
    first_row.push_back(static_cast<int32_t>(token_ids.size()));
    first_position.push_back(item.first_token);
    num_tokens.push_back(item.num_tokens);
    const int num_prompt = std::clamp(
        sequence.num_prompt_rows() - item.first_token, 0, item.num_tokens);
    num_prompt_rows.push_back(num_prompt);
    token_ids.insert(token_ids.end(), first, first + item.num_tokens);
    row_to_request.resize(token_ids.size(), static_cast<int32_t>(i));
    // Of each item the prompt's rows come first.
    if (num_prompt < item.num_tokens) {
      if (group.end_generated_row == 0) {
        group.first_generated_row = first_row.back() + num_prompt;
      }
      group.end_generated_row = static_cast<int>(token_ids.size());
    }
    if (item.samples) {
      logit_rows.push_back(static_cast<int32_t>(token_ids.size()) - 1);
    }
    for (int k = 0; k < item.num_scored; ++k) {
      const int token = item.first_scored + k;
      group.scored.push_back(
          {.row = first_row.back() + token - item.first_token,
           .next_token = sequence.tokens()[static_cast<size_t>(token) + 1],
           .num_top = *sequence.request().prompt_logprobs});
    }
  }
  LayerStep& step = group.args.step;
  step.num_rows = static_cast<int>(token_ids.size());
  step.num_requests = static_cast<int>(group.items.size());
  step.has_prompt_rows =
      std::ranges::any_of(num_prompt_rows, [](int32_t num) { return num > 0; });
  step.has_generated_rows = group.end_generated_row > 0;
  step.row_to_request = PutIntegers(row_to_request);
  step.first_row = PutIntegers(first_row);
  step.first_position = PutIntegers(first_position);
  step.num_tokens = PutIntegers(num_tokens);
  step.num_prompt_rows = PutIntegers(num_prompt_rows);
  group.args.token_ids = PutIntegers(token_ids);
  group.args.logit_rows = PutIntegers(logit_rows);
}

// Nothing where no request of the group has a selector.
void Runner::GatherSelection(Group& group) {
  if (selectors_.size() == 0) return;
  std::vector<SelectorSet::StepRequest> requests;
  std::vector<int32_t> selectors, num_prompt_tokens, num_context_tokens,
      first_token;
  bool any = false;
  for (size_t i = 0; i < group.items.size(); ++i) {
    const Sequence& sequence = *group.sequences[i];
    const int selector = sequence.request().selector;
    any = any || selector >= 0;
    requests.push_back({sequence.id(), selector});
    selectors.push_back(selector);
    num_prompt_tokens.push_back(sequence.num_prompt_tokens());
    num_context_tokens.push_back(sequence.num_prompt_rows());
    int num_summarized = 0;
    if (group.is_layerwise()) {
      // In this layer: what is cached comes with its first item.
      const int first = group.items[i].first_token;
      num_summarized = first > sequence.num_cached_tokens() ? first : 0;
    } else if (selector >= 0) {
      num_summarized = selectors_.num_summarized(selector, sequence.id());
    }
    first_token.push_back(num_summarized);
  }
  if (!any) return;
  selectors_.WriteTables(*queue_, requests);
  LayerStep& step = group.args.step;
  step.selector = PutIntegers(selectors);
  step.num_prompt_tokens = PutIntegers(num_prompt_tokens);
  step.num_context_tokens = PutIntegers(num_context_tokens);
  Selection& selection = group.args.selection;
  selection = selectors_.selection();
  selection.first_token = PutIntegers(first_token);
  selection.first_row = group.first_generated_row;
  selection.end_row = group.end_generated_row;
  const View zeros = host_shares_.At(0, Dtype::kFloat32, {step.num_rows});
  std::fill_n(zeros.As<float>(), step.num_rows, 0.0f);
  selection.read_shares = shares_.At(0, Dtype::kFloat32, {step.num_rows});
  backend_.Copy(*queue_, zeros, selection.read_shares);
}

// The rows that draw for requests that are watched: of an item the last.
void Runner::GatherWatched(Group& group) {
  if (watch_ == nullptr) return;
  std::vector<WatchedRow> rows;
  int end_row = 0;
  for (size_t i = 0; i < group.items.size(); ++i) {
    const StepItem& item = group.items[i];
    const Sequence& sequence = *group.sequences[i];
    end_row += item.num_tokens;
    if (!item.samples || !sequence.request().is_watched) continue;
    const int position = item.first_token + item.num_tokens - 1;
    rows.push_back({.row = end_row - 1,
                    .position = position,
                    .selector = sequence.request().selector,
                    .is_prompt = position < sequence.num_prompt_rows()});
  }
  watch_->Begin(std::move(rows));
  group.args.watched = watch_->watched();
}

// `drawn`: as group.sampling.
void Runner::TellReads(const Group& group, std::span<DrawnToken> drawn) const {
  if (group.args.watched.rows.empty()) return;
  size_t num_told = 0;
  for (size_t i = 0; i < group.sampling.size(); ++i) {
    if (!group.sampling[i]->request().is_watched) continue;
    drawn[i].token.reads =
        std::make_shared<const TokenReads>(watch_->Reads(num_told++));
  }
}

void Runner::GatherRope(Group& group) {
  std::vector<float> frequencies, scales;
  for (const Sequence* sequence : group.sequences) {
    const RequestRope& rope = sequence->rope();
    frequencies.insert(frequencies.end(), rope.inverse_frequencies.begin(),
                       rope.inverse_frequencies.end());
    scales.push_back(rope.scale);
  }
  const auto num_requests = static_cast<int64_t>(scales.size());
  group.args.inverse_frequencies = tables_.Put(
      std::span<const float>(frequencies),
      {num_requests, static_cast<int64_t>(frequencies.size()) / num_requests});
  group.args.rope_scale =
      tables_.Put(std::span<const float>(scales), {num_requests});
}

Status Runner::RunGroup(Group& group, StepOutput* output) {
  if (group.args.first_layer > 0) RestoreHidden(group);
  if (group.is_layerwise()) CopyLayerFromHost(group);
  EnqueueForward(group);
  if (group.args.end_layer < model_.config().num_layers) {
    StoreHidden(group);
  }
  if (group.is_layerwise()) CopyLayerToHost(group);
  if (!group.sampling.empty()) {
    sampler_->Launch(*queue_, tables_, group.sampling);
  }
  if (!group.scored.empty()) {
    scorer_->Launch(*queue_, tables_, group.args, *activations_, group.scored);
  }
  const View shares = group.args.selection.read_shares;
  if (!shares.empty()) {
    backend_.Copy(*queue_, shares,
                  host_shares_.At(0, Dtype::kFloat32, {shares.dim(0)}));
  }
  if (!group.args.slots.empty()) far_.slots->EnqueueCounts(*queue_);
  RETURN_IF_ERROR(backend_.Wait(backend_.Record(*queue_), kStepTimeout));
  if (!group.sampling.empty()) {
    const size_t num_before = output->drawn.size();
    sampler_->Collect(group.sampling, &output->drawn);
    TellReads(group, std::span(output->drawn).subspan(num_before));
  }
  CollectScored(group, output);
  CollectShares(group, output);
  CollectBrought(group, output);
  if (store_ && group.args.end_layer == model_.config().num_layers) {
    for (const StepItem& item : group.items) store_->Release(item.sequence);
  }
  return Ok{};
}

// A step of generated rows comes again and again with other numbers in its
// tables; one with prompt rows seldom has the same shape twice, and one that is
// watched has copies to the host between; a layerwise one is a prompt's.
void Runner::EnqueueForward(const Group& group) {
  const ForwardArgs& args = group.args;
  const auto forward = [&] {
    Forward(backend_, *queue_, model_, args, *activations_);
  };
  if (args.step.has_prompt_rows || !args.watched.rows.empty() ||
      group.is_layerwise()) {
    return forward();
  }
  backend_.Replay(*queue_, ReplayKey(args).bytes(), forward);
}

// Groups come in the order of the plan's items.
void Runner::CollectShares(const Group& group, StepOutput* output) const {
  if (selectors_.size() == 0) return;
  const int num_rows = group.args.step.num_rows;
  std::vector<float>& shares = output->read_shares;
  if (group.args.selection.read_shares.empty()) {
    shares.insert(shares.end(), static_cast<size_t>(num_rows), 0.0f);
    return;
  }
  const View view = host_shares_.At(0, Dtype::kFloat32, {num_rows});
  shares.insert(shares.end(), view.As<float>(), view.As<float>() + num_rows);
}

void Runner::CollectScored(const Group& group, StepOutput* output) const {
  size_t index = 0;
  for (const StepItem& item : group.items) {
    for (int i = 0; i < item.num_scored; ++i, ++index) {
      output->scored.push_back(
          {item.sequence, scorer_->Score(group.scored[index], index)});
    }
  }
}

// Groups come in the order of the plan's items.
void Runner::CollectBrought(const Group& group, StepOutput* output) const {
  if (far_.slots == nullptr) return;
  const int first_layer = group.args.first_layer;
  const int end_layer = group.args.end_layer;
  for (size_t i = 0; i < group.items.size(); ++i) {
    BroughtPieces& brought = output->brought.emplace_back();
    if (group.args.slots.empty()) continue;
    const auto request = static_cast<int>(i);
    brought = far_.slots->Brought(request, first_layer, end_layer);
    far_.slots->CountUse(group.items[i].sequence, request, first_layer,
                         end_layer);
  }
}

void Runner::RestoreHidden(const Group& group) {
  int row = 0;
  for (size_t i = 0; i < group.items.size(); ++i) {
    const StepItem& item = group.items[i];
    const View rows = group.args.hidden.Slice(row, item.num_tokens);
    row += item.num_tokens;
    if (item.layerwise) {
      far_.layerwise->LoadRows(*queue_, *group.sequences[i], item, rows);
      continue;
    }
    CHECK(store_ && store_->Holds(item.sequence), "sequence={}",
          item.sequence.value());
    backend_.Copy(*queue_, store_->Rows(item.sequence, item.num_tokens), rows);
  }
}

void Runner::StoreHidden(const Group& group) {
  int row = 0;
  for (size_t i = 0; i < group.items.size(); ++i) {
    const StepItem& item = group.items[i];
    const View rows = group.args.hidden.Slice(row, item.num_tokens);
    row += item.num_tokens;
    if (item.layerwise) {
      far_.layerwise->StoreRows(*queue_, *group.sequences[i], item, rows);
      continue;
    }
    CHECK(store_.has_value(), "plan splits the layers, options do not say so");
    backend_.Copy(*queue_, rows, store_->Rows(item.sequence, item.num_tokens));
  }
}

void Runner::CopyLayerFromHost(const Group& group) {
  for (size_t i = 0; i < group.items.size(); ++i) {
    far_.layerwise->CopyFromHost(*queue_, *group.sequences[i], group.items[i]);
  }
}

void Runner::CopyLayerToHost(const Group& group) {
  for (size_t i = 0; i < group.items.size(); ++i) {
    far_.layerwise->CopyToHost(*queue_, *group.sequences[i], group.items[i]);
  }
}

}  // namespace winnow
