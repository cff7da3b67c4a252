// StepRows: the rows of a LayerStep, read on the host.
#ifndef WINNOW_BACKEND_CPU_STEP_ROWS_H_
#define WINNOW_BACKEND_CPU_STEP_ROWS_H_

#include "backend/contract/layer_cache.h"
#include "backend/contract/step.h"
#include "base/check.h"

namespace winnow {

// Borrows a LayerStep's views and CHECKs once that their types fit.
// REQUIRES: no draft trees, which come with speculation.
class StepRows {
 public:
  explicit StepRows(const LayerStep& step) {
    CHECK(step.tree_parent.empty(), "draft trees are not read yet");
    if (step.num_requests == 0) return;
    row_to_request_ = step.row_to_request.As<int32_t>();
    first_row_ = step.first_row.As<int32_t>();
    first_position_ = step.first_position.As<int32_t>();
    num_tokens_ = step.num_tokens.As<int32_t>();
    num_prefill_rows_ = step.num_prefill_rows.As<int32_t>();
    if (step.selector.empty()) return;
    selector_ = step.selector.As<int32_t>();
    num_prompt_tokens_ = step.num_prompt_tokens.As<int32_t>();
    if (step.num_context_tokens.empty()) return;
    num_context_tokens_ = step.num_context_tokens.As<int32_t>();
  }

  int request(int64_t row) const { return row_to_request_[row]; }
  // Where a row's token stands in its sequence.
  int64_t position(int64_t row) const {
    const int r = request(row);
    return int64_t{first_position_[r]} + row - first_row_[r];
  }
  // Prefill rows are attended by tiles, generated ones by units.
  bool is_prompt(int64_t row) const {
    const int r = request(row);
    return row - first_row_[r] < num_prefill_rows_[r];
  }
  int first_row(int request) const { return first_row_[request]; }
  int first_position(int request) const { return first_position_[request]; }
  int num_tokens(int request) const { return num_tokens_[request]; }
  int num_prefill_rows(int request) const { return num_prefill_rows_[request]; }
  // Which selector chooses for a request, -1: none.
  int selector(int request) const {
    return selector_ == nullptr ? -1 : selector_[request];
  }
  // REQUIRES: the step names selectors.
  int num_prompt_tokens(int request) const {
    return num_prompt_tokens_[request];
  }

  // Of all steps. REQUIRES: the step says so.
  int num_context_tokens(int request) const {
    CHECK(num_context_tokens_ != nullptr, "request={}", request);
    return num_context_tokens_[request];
  }

  // The KV block of a page. REQUIRES: the page is whole.
  static uint32_t KvBlock(const LayerCache& cache, int request, int64_t page) {
    CHECK(page < cache.max_pages, "page={} max_pages={}", page,
          cache.max_pages);
    const uint32_t kv_block = cache.page_table.Row(request)[page];
    CHECK(kv_block != kNotWhole, "request={} page={} is not whole", request,
          page);
    return kv_block;
  }

 private:
  const int32_t* row_to_request_ = nullptr;      // [rows]
  const int32_t* first_row_ = nullptr;           // [requests]
  const int32_t* first_position_ = nullptr;      // [requests]
  const int32_t* num_tokens_ = nullptr;          // [requests]
  const int32_t* num_prefill_rows_ = nullptr;    // [requests]
  const int32_t* selector_ = nullptr;            // [requests], or null
  const int32_t* num_prompt_tokens_ = nullptr;   // [requests], or null
  const int32_t* num_context_tokens_ = nullptr;  // [requests], or null
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_STEP_ROWS_H_
