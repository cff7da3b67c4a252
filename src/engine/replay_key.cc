#include "engine/replay_key.h"

#include <cstring>
#include <type_traits>

namespace winnow {
namespace {

// Bytes one after another, without the padding that structs have.
class KeyBytes {
 public:
  template <typename T>
  void Add(const T& value) {
    static_assert(std::is_scalar_v<T>, "structs have padding");
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
  }
  void Add(const View& view) {
    Add(view.data);
    Add(view.dtype);
    Add(view.rank);
    for (int i = 0; i < view.rank; ++i) {
      Add(view.shape[static_cast<size_t>(i)]);
      Add(view.stride[static_cast<size_t>(i)]);
    }
  }
  void Add(const LayerStep& step) {
    Add(step.num_rows);
    Add(step.num_requests);
    Add(step.has_prompt_rows);
    Add(step.has_generated_rows);
    for (const View* view :
         {&step.row_to_request, &step.first_row, &step.first_position,
          &step.num_tokens, &step.num_prompt_rows, &step.selector,
          &step.num_prompt_tokens, &step.num_context_tokens,
          &step.tree_parent}) {
      Add(*view);
    }
  }
  void Add(const Selection& selection) {
    Add(selection.num_selectors);
    for (const LayerSelector& layer : selection.selectors) {
      Add(layer.program);
      Add(layer.summaries.rows);
      Add(layer.summaries.segments);
      Add(layer.fixed.slots);
      Add(layer.fixed.slot_of_request);
    }
    Add(selection.first_row);
    Add(selection.end_row);
    Add(selection.first_token);
    Add(selection.read_shares);
    Add(selection.picks.picks);
  }

  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

std::vector<std::byte> ReplayKey(const ForwardArgs& args) {
  KeyBytes key;
  key.Add(args.step);
  for (const View* view :
       {&args.token_ids, &args.inverse_frequencies, &args.rope_scale,
        &args.hidden, &args.logit_rows, &args.logits}) {
    key.Add(*view);
  }
  for (const LayerCache& layer : args.layers) {
    key.Add(layer.strips);
    key.Add(layer.page_table);
  }
  key.Add(args.selection);
  key.Add(args.first_layer);
  key.Add(args.end_layer);
  key.Add(args.batch_invariant);
  return key.Take();
}

}  // namespace winnow
