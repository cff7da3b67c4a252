// The runner's tables: what a group's rows are, and where the device finds it.
#include <algorithm>

#include "engine/run/runner.h"

namespace winnow {

Runner::Group Runner::Gather(std::span<const StepItem> items, const KvCache& kv,
                             const SequenceOf& sequence_of) {
  tables_.Clear();
  Group group;
  group.items.assign(items.begin(), items.end());
  for (const StepItem& item : items) {
    const Sequence* sequence = sequence_of(item.sequence);
    CHECK(sequence != nullptr, "sequence={} has ended", item.sequence.value());
    group.sequences.push_back(sequence);
    if (!item.samples) continue;
    group.sampling.push_back({item.sequence, sequence->request().is_watched});
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
  std::vector<std::span<const KvBlockId>> pages;
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
  group.args.fetch_counts = far_.slots->counts();
}

View Runner::PutIntegers(const std::vector<int32_t>& values) {
  return tables_.Put(std::span<const int32_t>(values),
                     {static_cast<int64_t>(values.size())});
}

void Runner::GatherRows(Group& group) {
  std::vector<int32_t> token_ids, row_to_request, first_row, first_position,
      num_tokens, num_prefill_rows, logit_rows;
  for (size_t i = 0; i < group.items.size(); ++i) {
    const StepItem& item = group.items[i];
    const Sequence& sequence = *group.sequences[i];
    first_row.push_back(static_cast<int32_t>(token_ids.size()));
    first_position.push_back(item.first_token);
    num_tokens.push_back(item.num_tokens);
    const int num_prompt = std::clamp(
        sequence.num_prefill_rows() - item.first_token, 0, item.num_tokens);
    num_prefill_rows.push_back(num_prompt);
    GatherTokens(item, sequence, group, &token_ids);
    row_to_request.resize(token_ids.size(), static_cast<int32_t>(i));
    // Of each item the prompt's rows come first.
    if (num_prompt < item.num_tokens) {
      if (group.end_decode_row == 0) {
        group.first_decode_row = first_row.back() + num_prompt;
      }
      group.end_decode_row = static_cast<int>(token_ids.size());
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
  step.has_prefill_rows = std::ranges::any_of(
      num_prefill_rows, [](int32_t num) { return num > 0; });
  step.has_decode_rows = group.end_decode_row > 0;
  step.row_to_request = PutIntegers(row_to_request);
  step.first_row = PutIntegers(first_row);
  step.first_position = PutIntegers(first_position);
  step.num_tokens = PutIntegers(num_tokens);
  step.num_prefill_rows = PutIntegers(num_prefill_rows);
  group.args.token_ids = PutIntegers(token_ids);
  group.args.logit_rows = PutIntegers(logit_rows);
}

// What a step under way draws is not known here, unless it is told what
// follows.
void Runner::GatherTokens(const StepItem& item, const Sequence& sequence,
                          Group& group, std::vector<int32_t>* token_ids) const {
  const std::vector<int32_t>& tokens = sequence.tokens();
  const auto end = static_cast<size_t>(item.first_token + item.num_tokens);
  token_ids->insert(token_ids->end(), tokens.begin() + item.first_token,
                    tokens.begin() + std::min(end, tokens.size()));
  if (end <= tokens.size()) return;
  const auto draw = static_cast<size_t>(sequence.num_generated());
  const auto& forced = sequence.request().forced_tokens;
  if (draw < forced.size()) return token_ids->push_back(forced[draw]);
  CHECK(!under_way_.empty(), "sequence={} token={} of {}",
        item.sequence.value(), end - 1, tokens.size());
  const auto& drawn = under_way_.back().sampling;
  const auto source =
      std::ranges::find(drawn, item.sequence, &SamplingItem::sequence);
  CHECK(source != drawn.end() && end == tokens.size() + 1,
        "sequence={} token={} of {}", item.sequence.value(), end - 1,
        tokens.size());
  group.drawn_rows.push_back(
      {.row = static_cast<int>(token_ids->size()),
       .drawn = static_cast<int>(source - drawn.begin())});
  token_ids->push_back(-1);
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
    num_context_tokens.push_back(sequence.num_prefill_rows());
    int num_summarized = 0;
    const int first = group.items[i].first_token;
    if (group.is_layerwise()) {
      // In this layer: what is cached comes with its first item.
      num_summarized = first > sequence.num_cached_tokens() ? first : 0;
    } else if (first > sequence.num_computed()) {
      num_summarized = first;  // What a step that is under way has come to.
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
  // What a sequence begins with was not there before, where another makes it.
  if (!selectors_.makes_for_others()) {
    selection.first_new_token = selection.first_token;
  }
  selection.first_row = group.first_decode_row;
  selection.end_row = group.end_decode_row;
  // Of many requests one nearly always does, and steps of each number of them
  // would be recorded twice.
  constexpr size_t kFewRequests = 4;
  selection.completes_summaries = group.items.size() > kFewRequests;
  for (size_t i = 0; i < group.items.size(); ++i) {
    const StepItem& item = group.items[i];
    if (selectors[i] >= 0 &&
        selectors_.Completes(selectors[i], first_token[i],
                             item.first_token + item.num_tokens)) {
      selection.completes_summaries = true;
    }
  }
  const View zeros = zeros_.At(0, Dtype::kFloat32, {step.num_rows});
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
                    .is_prompt = position < sequence.num_prefill_rows()});
  }
  watch_->Begin(std::move(rows));
  group.args.watched = watch_->watched();
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

}  // namespace winnow
