#include "engine/run/replay_key.h"

namespace winnow {
namespace {

void Add(const View& view, KeyBytes& key) {
  key.Add(view.data);
  key.Add(view.dtype);
  key.Add(view.rank);
  for (int i = 0; i < view.rank; ++i) {
    key.Add(view.shape[static_cast<size_t>(i)]);
    key.Add(view.stride[static_cast<size_t>(i)]);
  }
}

void Add(const RowTable& table, KeyBytes& key) {
  Add(table.first, key);
  Add(table.entries, key);
}

void Add(const LayerStep& step, KeyBytes& key) {
  key.Add(step.num_rows);
  key.Add(step.num_requests);
  key.Add(step.has_prefill_rows);
  key.Add(step.has_decode_rows);
  for (const View* view :
       {&step.row_to_request, &step.first_row, &step.first_position,
        &step.num_tokens, &step.num_prefill_rows, &step.selector,
        &step.num_prompt_tokens, &step.num_context_tokens, &step.tree_parent}) {
    Add(*view, key);
  }
}

void Add(const Selection& selection, KeyBytes& key) {
  key.Add(selection.num_selectors);
  for (const LayerSelector& layer : selection.selectors) {
    key.Add(layer.program);
    key.Add(layer.summaries.rows);
    Add(layer.summaries.segments, key);
    key.Add(layer.fixed.words);
    Add(layer.fixed.segments, key);
    key.Add(layer.fixed.slots);
    Add(layer.fixed.slot_of_request, key);
  }
  key.Add(selection.first_row);
  key.Add(selection.end_row);
  Add(selection.first_token, key);
  Add(selection.first_new_token, key);
  key.Add(selection.completes_summaries);
  Add(selection.read_shares, key);
  Add(selection.picks.picks, key);
  Add(selection.hints.picks, key);
  key.Add(selection.hint_budget_times);
  key.Add(selection.least_hint_age);
}

void Add(const SlotTable& slots, KeyBytes& key) {
  for (const View* view :
       {&slots.num_segments, &slots.entries, &slots.num_frames, &slots.frames,
        &slots.tags, &slots.ages, &slots.host_memory}) {
    Add(*view, key);
  }
  for (const RowTable* table :
       {&slots.directory, &slots.chunks, &slots.host_pages}) {
    Add(*table, key);
  }
  key.Add(slots.max_frames);
  key.Add(slots.layer_blocks);
}

}  // namespace

KeyBytes ReplayKey(const ForwardArgs& args) {
  KeyBytes key;
  Add(args.step, key);
  for (const View* view :
       {&args.token_ids, &args.inverse_frequencies, &args.rope_scale,
        &args.hidden, &args.logit_rows, &args.logits}) {
    Add(*view, key);
  }
  for (const LayerCache& layer : args.layers) {
    key.Add(layer.layer_blocks);
    Add(layer.page_table, key);
    key.Add(layer.max_pages);
  }
  Add(args.selection, key);
  for (const SlotTable& slots : args.slots) Add(slots, key);
  for (const View& counts : args.fetch_counts) Add(counts, key);
  key.Add(args.first_layer);
  key.Add(args.end_layer);
  key.Add(args.batch_invariant);
  return key;
}

}  // namespace winnow
