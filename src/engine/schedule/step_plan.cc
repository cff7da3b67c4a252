#include "engine/schedule/step_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace winnow {

std::vector<Growth> StepPlan::Growths() const {
  std::vector<Growth> growths;
  for (const StepItem& item : items) {
    if (item.first_layer == 0 && !item.layerwise) {
      growths.push_back({item.sequence, item.num_tokens});
    }
  }
  return growths;
}

bool StepPlan::RunsWhole(int num_layers) const {
  return std::ranges::all_of(items, [num_layers](const StepItem& item) {
    return item.first_layer == 0 && item.end_layer == num_layers &&
           !item.layerwise;
  });
}

const StepItem* StepPlan::Find(SequenceId sequence) const {
  const auto found = std::ranges::find(items, sequence, &StepItem::sequence);
  return found == items.end() ? nullptr : &*found;
}

int NumRows(const StepPlan& plan) {
  int num_rows = 0;
  for (const StepItem& item : plan.items) num_rows += item.num_tokens;
  return num_rows;
}

std::string ToString(const StepPlan& plan) {
  std::string text;
  for (const StepItem& item : plan.items) {
    text += fmt::format("{}{}:[{},{})x[{},{}){}", text.empty() ? "" : " ",
                        item.sequence.value(), item.first_token,
                        item.first_token + item.num_tokens, item.first_layer,
                        item.end_layer, item.samples ? "*" : "");
    if (item.num_scored == 0) continue;
    text += fmt::format("?[{},{})", item.first_scored,
                        item.first_scored + item.num_scored);
  }
  return text;
}

}  // namespace winnow
