#include "engine/run/runner.h"

#include <algorithm>

#include "engine/run/replay_key.h"

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
    ASSIGN_OR_RETURN(zeros_,
                     backend_.Allocate(Tier::kHost, num_bytes,
                                       "shares before rows read, host"));
    std::fill_n(zeros_.data(), num_bytes, std::byte{0});
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

void Runner::Forget(SequenceId id) {
  if (store_) store_->Release(id);
}

Result<StepOutput> Runner::Run(const StepPlan& plan, const KvCache& kv,
                               const SequenceOf& sequence_of) {
  CHECK(under_way_.empty(), "{} steps are under way", under_way_.size());
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
    LaunchGroup(items.subspan(begin, end - begin), kv, sequence_of);
    Draw(sequence_of);
    RETURN_IF_ERROR(CollectGroup(&output));
    begin = end;
  }
  return output;
}

void Runner::Launch(const StepPlan& plan, const KvCache& kv,
                    const SequenceOf& sequence_of) {
  CHECK(!plan.empty() && plan.RunsWhole(model_.config().num_layers), "plan={}",
        ToString(plan));
  CHECK(NumRows(plan) <= options_.max_rows, "rows={} max_rows={}",
        NumRows(plan), options_.max_rows);
  LaunchGroup(plan.items, kv, sequence_of);
}

Result<StepOutput> Runner::Collect() {
  StepOutput output;
  RETURN_IF_ERROR(CollectGroup(&output));
  return output;
}

// A copy for each run of rows that stand together on both sides.
void Runner::CopyDrawn(const Group& group) {
  const auto breaks = [](const DrawnRow& row, const DrawnRow& next) {
    return next.row != row.row + 1 || next.drawn != row.drawn + 1;
  };
  auto begin = group.drawn_rows.begin();
  while (begin != group.drawn_rows.end()) {
    auto end = std::adjacent_find(begin, group.drawn_rows.end(), breaks);
    if (end != group.drawn_rows.end()) ++end;
    const auto num_rows = static_cast<int>(end - begin);
    backend_.Copy(*queue_, sampler_->drawn(begin->drawn, num_rows),
                  group.args.token_ids.Slice(begin->row, num_rows));
    begin = end;
  }
}

// `drawn`: as group.sampling.
void Runner::TellReads(const Group& group, std::span<DrawnToken> drawn) const {
  if (group.args.watched.rows.empty()) return;
  CHECK(drawn.size() == group.sampling.size(), "drawn={} sampling={}",
        drawn.size(), group.sampling.size());
  size_t num_told = 0;
  for (size_t i = 0; i < group.sampling.size(); ++i) {
    if (!group.sampling[i].is_watched) continue;
    drawn[i].token.reads =
        std::make_shared<const TokenReads>(watch_->Reads(num_told++));
  }
}

void Runner::LaunchGroup(std::span<const StepItem> items, const KvCache& kv,
                         const SequenceOf& sequence_of) {
  CHECK(under_way_.empty() || (under_way_.size() == 1 && under_way_[0].end),
        "{} steps are under way, or not drawn", under_way_.size());
  Group group = Gather(items, kv, sequence_of);
  CopyDrawn(group);
  if (group.args.first_layer > 0) RestoreHidden(group);
  if (group.is_layerwise()) CopyLayerFromHost(group);
  EnqueueForward(group);
  if (group.args.end_layer < model_.config().num_layers) {
    StoreHidden(group);
  }
  if (group.is_layerwise()) CopyLayerToHost(group);
  group.sequences.clear();  // They may end at any time from here on.
  under_way_.push_back(std::move(group));
}

// Its tables come behind those of the Forward.
void Runner::Draw(const SequenceOf& sequence_of) {
  CHECK(under_way_.size() == 1 && !under_way_[0].end,
        "{} steps are under way, or none is to be drawn", under_way_.size());
  Group& group = under_way_[0];
  std::vector<const Sequence*> sampling;
  for (const SamplingItem& item : group.sampling) {
    sampling.push_back(sequence_of(item.sequence));
  }
  if (!sampling.empty()) sampler_->Launch(*queue_, tables_, sampling);
  if (!group.scored.empty()) {
    scorer_->Launch(*queue_, tables_, group.args, *activations_, group.scored);
  }
  const View shares = group.args.selection.read_shares;
  if (!shares.empty()) {
    backend_.Copy(*queue_, shares,
                  host_shares_.At(0, Dtype::kFloat32, {shares.dim(0)}));
  }
  if (!group.args.slots.empty()) far_.slots->EnqueueCounts(*queue_);
  group.end = backend_.Record(*queue_);
}

Status Runner::CollectGroup(StepOutput* output) {
  CHECK(!under_way_.empty() && under_way_[0].end, "no step was drawn");
  const Group group = std::move(under_way_.front());
  under_way_.pop_front();
  RETURN_IF_ERROR(backend_.Wait(*group.end, kStepTimeout));
  if (!group.sampling.empty()) {
    const size_t num_before = output->drawn.size();
    sampler_->Collect(&output->drawn);
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

// A step of one decode row a request comes again and again with other
// numbers in its tables. One with prefill rows, or with a question's or those
// that a request reads again which was preempted, seldom has the same shape
// twice; one that is watched has copies to the host between; a layerwise one is
// a prompt's.
void Runner::EnqueueForward(const Group& group) {
  const ForwardArgs& args = group.args;
  const auto forward = [&] {
    Forward(backend_, *queue_, model_, args, *activations_);
  };
  if (args.step.has_prefill_rows ||
      args.step.num_rows != args.step.num_requests ||
      !args.watched.rows.empty() || group.is_layerwise()) {
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
    FetchedPieces& brought = output->brought.emplace_back();
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
