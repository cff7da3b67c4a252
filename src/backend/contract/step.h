// What every op of one step and layer shares: which rows belong to whom.
#ifndef WINNOW_BACKEND_CONTRACT_STEP_H_
#define WINNOW_BACKEND_CONTRACT_STEP_H_

#include "tensor/view.h"

namespace winnow {

// A step runs `num_rows` rows, one a token, grouped by request: request i owns
// rows first_row[i] .. first_row[i] + num_tokens[i]. Rows of one request stand
// at consecutive positions. The first num_prefill_rows[i] of them are prompt
// rows, the others decode rows: the two are attended by different rules
// (docs/design.md section 5), whatever step they happen to run in.
// All views lie on the device, so that a captured graph reads the current
// values; the host counts are upper bounds that size a launch.
struct LayerStep {
  int layer = 0;
  int window = 0;  // sliding window in tokens, the row itself counted; 0: none
  int num_rows = 0;
  int num_requests = 0;
  View row_to_request;    // i32 [rows]
  View first_row;         // i32 [requests]
  View first_position;    // i32 [requests]
  View num_tokens;        // i32 [requests]
  View num_prefill_rows;  // i32 [requests]
  // Which of the step's selectors chooses for a request, -1: none. Empty: none
  // for any.
  View selector = {};  // i32 [requests]
  View num_prompt_tokens =
      {};            // i32 [requests]: whole prompts; with `selector`
  View tree_parent;  // i32 [rows]: row of the parent in a draft's tree, -1
                     // at its root; empty: every row follows the last
  // Whether prefill rows, or generated ones, are to be attended: Attend leaves
  // rows of a kind that is switched off alone, and need not be told of a kind
  // that has no row.
  bool has_prefill_rows = true;
  bool has_decode_rows = true;
  // i32 [requests]: prefill rows of all steps together; with `selector`, where
  // its program fixes a choice behind them.
  View num_context_tokens = {};
};

// What a layer hands to Append, and what a selector may look at. Unused views
// are empty.
struct TokenInputs {
  View x;        // [rows, hidden]: the layer's normalised input
  View q;        // [rows, q_heads, k_dim]: rotated in place by Append
  View q_pre;    // [rows, q_heads, k_dim]: out, q before RoPE, if asked for
  View k;        // [rows, kv_heads, k_dim]: before RoPE
  View v;        // [rows, kv_heads, v_dim]
  View cos_sin;  // f32 [rows, rotary_dim]: cosines, then sines
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_STEP_H_
