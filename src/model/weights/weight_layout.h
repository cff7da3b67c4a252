// WeightLayout: where weights lie in a backend's memory.
#ifndef WINNOW_MODEL_WEIGHTS_WEIGHT_LAYOUT_H_
#define WINNOW_MODEL_WEIGHTS_WEIGHT_LAYOUT_H_

#include <cstddef>
#include <vector>

#include "model/weights/weights.h"

namespace winnow {

// A place for each weight. Parts that share an input stand side by side, their
// biases too, so that JoinedWeights::Join may follow.
struct WeightLayout {
  struct Place {
    View* view = nullptr;  // of a weight: its data is not looked at
    size_t offset_bytes = 0;
  };

  std::vector<Place> places;  // in ascending order
  size_t num_bytes = 0;

  // `tied`: lm_head is the embedding and has no place of its own.
  static WeightLayout Of(Weights& weights, bool tied);
};

// Joins what all layers may join. REQUIRES: weights lie as WeightLayout says.
void JoinLayers(Weights& weights);

}  // namespace winnow

#endif  // WINNOW_MODEL_WEIGHTS_WEIGHT_LAYOUT_H_
