#include "engine/run/read_counts.h"

#include <algorithm>

namespace winnow {

void CountReads(const ModelConfig& config, const SelectorSet& selectors,
                const StepItem& item, std::span<const float> shares,
                Sequence& sequence) {
  const int first = std::max(
      {item.first_token, sequence.num_prefill_rows(), sequence.num_counted()});
  const int end = item.first_token + item.num_tokens;
  const int selector = sequence.request().selector;
  int num_chosen_layers = 0;
  for (int layer = item.first_layer; layer < item.end_layer; ++layer) {
    if (selector >= 0 &&
        selectors.selector(selector).ForLayer(layer) != nullptr) {
      ++num_chosen_layers;
      continue;
    }
    const int window = config.windows[static_cast<size_t>(layer)];
    for (int context = first + 1; context <= end; ++context) {
      const int read = window > 0 ? std::min(window, context) : context;
      sequence.CountReads(static_cast<double>(read) / context, context, 1);
    }
  }
  if (num_chosen_layers == 0) return;
  for (int token = first; token < end; ++token) {
    sequence.CountReads(shares[static_cast<size_t>(token - item.first_token)],
                        token + 1, num_chosen_layers);
  }
}

}  // namespace winnow
