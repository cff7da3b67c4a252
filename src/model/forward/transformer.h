// The forward pass, written once, in the backend's ops.
#ifndef WINNOW_MODEL_FORWARD_TRANSFORMER_H_
#define WINNOW_MODEL_FORWARD_TRANSFORMER_H_

#include <array>
#include <span>

#include "backend/backend.h"
#include "model/forward/activations.h"
#include "model/forward/model.h"

namespace winnow {

// What the selectors of a step's requests work with; with none, all is dense.
struct Selection {
  // [num_layers, num_selectors], by LayerStep::selector.
  std::span<const LayerSelector> selectors;
  int num_selectors = 0;
  View first_token;           // i32 [requests], as SummarizeArgs has it
  View first_new_token = {};  // i32 [requests], or empty, as SelectArgs has it
  // Whether the step's tokens may complete something that Summarize makes: most
  // steps of decode complete nothing.
  bool completes_summaries = true;
  View read_shares;  // f32 [rows], as SelectArgs has it
  // Decode rows stand among [first_row, end_row) of the step.
  int first_row = 0, end_row = 0;
  // Memory for the lists of a run of rows, which chooses and reads before the
  // next one does.
  PickLists picks;
  // Memory for the next ranks of as many rows, or empty: what Fetch is to keep
  // near of rows whose pages are not whole. Of a run of more rows nothing is.
  PickLists hints = {};
  double hint_budget_times = 1;
  int least_hint_age = 1;
  // Where a selector estimates: attention over picks and over estimates, before
  // they are one. For the rows of the largest step.
  std::array<View, 2> outs = {};  // f32 [rows, q_heads * head_dim]
  std::array<View, 2> lses = {};  // f32 [rows, q_heads]

  // Those of one layer.
  std::span<const LayerSelector> OfLayer(int layer) const {
    const auto count = static_cast<size_t>(num_selectors);
    return selectors.subspan(static_cast<size_t>(layer) * count, count);
  }
};

// Rows whose lists are copied to the host behind each Select: for who watches.
struct WatchedRows {
  std::span<const int> rows;  // of the step, ascending; none: nothing is done
  // By layer: memory of the host, as much for a row as Selection::picks has;
  // its row i is for rows[i].
  std::span<const PickLists> lists;
};

// What one Forward reads and writes. All views lie on the device.
struct ForwardArgs {
  LayerStep step;            // layer and window are filled in layer by layer
  View token_ids;            // i32 [rows]; read where first_layer is 0
  View inverse_frequencies;  // f32 [requests, rotary_dim / 2]
  View rope_scale;           // f32 [requests]
  // KV of each layer of the model, at its own index; those of the layer range
  // are used.
  std::span<const LayerCache> layers;
  // The layer range. At 0 it begins with the embedding, at num_layers it ends
  // with the logits; between, `hidden` carries the rows from range to range.
  int first_layer = 0;
  int end_layer = 0;
  View hidden;      // f32 [rows, hidden]: in if first_layer > 0; always out
  View logit_rows;  // i32 [wanted]: rows whose logits are wanted, or empty
  View logits;      // f32 [wanted, vocab]: out where end_layer is num_layers
  bool batch_invariant = false;
  Selection selection;
  // Of each layer, where decode rows find pages that are not whole; empty:
  // all are. What Fetch counts there, as FetchArgs has it; or empty.
  std::span<const SlotTable> slots = {};
  std::span<const View> fetch_counts = {};
  WatchedRows watched = {};  // no part of what is read, nor of Replay's key
};

// Enqueues layers [first_layer, end_layer) of a step. Allocates nothing, waits
// for nothing. The residual stream is float32; inputs of products are of the
// weights' dtype. REQUIRES: the step's requests have pages for its rows; rows
// and wanted rows within the limits of `activations`.
void Forward(Backend& backend, Queue& queue, const Model& model,
             const ForwardArgs& args, const Activations& activations);

// Rows of a step behind its last layer, and what the model says comes next.
struct LogitArgs {
  View hidden;  // f32 [rows, hidden], as Forward left it
  View rows;    // i32 [wanted]: rows of it
  View logits;  // f32 [wanted, vocab]: out
  bool batch_invariant = false;
};

// Enqueues the product that Forward ends with, for more of its rows: bits are
// those that it would have computed beside as many. REQUIRES: wanted rows
// within the limits of `activations`.
void EnqueueLogits(Backend& backend, Queue& queue, const Model& model,
                   const LogitArgs& args, const Activations& activations);

}  // namespace winnow

#endif  // WINNOW_MODEL_FORWARD_TRANSFORMER_H_
