// A model and its error messages, for tests of selectors.
#ifndef WINNOW_SPARSE_SPEC_SELECTOR_CASE_H_
#define WINNOW_SPARSE_SPEC_SELECTOR_CASE_H_

#include <string>
#include <string_view>

#include "sparse/spec/selector.h"

namespace winnow {

inline constexpr int kContext = 131072;

inline SelectorShape Shape(int gate_block_tokens = 0) {
  return {.num_layers = 4,
          .num_q_heads = 8,
          .num_kv_heads = 2,
          .head_dim = 64,
          .kv_dtype = Dtype::kBFloat16,
          .max_context_tokens = kContext,
          .windows = {0, 0, 0, 0},
          .gate_block_tokens = gate_block_tokens};
}

inline std::string ErrorOf(std::string_view spec, int gate_block_tokens = 0) {
  const auto selector = MakeSelector(spec, Shape(gate_block_tokens));
  return selector.ok() ? "" : selector.error().message;
}

}  // namespace winnow

#endif  // WINNOW_SPARSE_SPEC_SELECTOR_CASE_H_
