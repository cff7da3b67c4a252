#include "model/weights/weight_layout.h"

namespace winnow {
namespace {

constexpr size_t kGroupAlignment = 256;

// Views that stand side by side. A view of rank 0 has no weight.
using Group = std::vector<View*>;

void AddJoined(JoinedWeights& weights, std::vector<Group>& groups) {
  Group matrices, biases;
  for (LinearWeights& product : weights.products) {
    matrices.push_back(&product.matrix.codes);
    biases.push_back(&product.bias);
  }
  groups.push_back(std::move(matrices));
  groups.push_back(std::move(biases));
}

std::vector<Group> GroupsOf(Weights& weights, bool tied) {
  std::vector<Group> groups = {{&weights.embedding}};
  for (LayerWeights& layer : weights.layers) {
    groups.push_back({&layer.input_norm});
    AddJoined(layer.qkv, groups);
    groups.insert(groups.end(), {{&layer.q_norm},
                                 {&layer.k_norm},
                                 {&layer.o.matrix.codes},
                                 {&layer.o.bias},
                                 {&layer.post_attention_norm}});
    AddJoined(layer.gate_up, groups);
    groups.insert(groups.end(),
                  {{&layer.down.matrix.codes}, {&layer.down.bias}});
  }
  groups.push_back({&weights.final_norm});
  if (!tied) groups.push_back({&weights.lm_head.codes});
  return groups;
}

}  // namespace

WeightLayout WeightLayout::Of(Weights& weights, bool tied) {
  WeightLayout layout;
  for (const Group& group : GroupsOf(weights, tied)) {
    for (View* view : group) {
      if (view->rank == 0) continue;
      layout.places.push_back({view, layout.num_bytes});
      layout.num_bytes += static_cast<size_t>(view->num_bytes());
    }
    layout.num_bytes = (layout.num_bytes + kGroupAlignment - 1) /
                       kGroupAlignment * kGroupAlignment;
  }
  return layout;
}

void JoinLayers(Weights& weights) {
  for (LayerWeights& layer : weights.layers) {
    layer.qkv.Join();
    layer.gate_up.Join();
  }
}

}  // namespace winnow
