// The shapes of published models: configurations without a checkpoint, for
// measurements on random weights.
#ifndef WINNOW_MODEL_CONFIG_SHAPES_H_
#define WINNOW_MODEL_CONFIG_SHAPES_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config/config.h"

namespace winnow {

// "llama-3.1-8b", ...
std::vector<std::string_view> ShapeNames();

// The sizes of that model's config.json, with a context of up to 1M tokens.
// Fails with kInvalidArgument if no shape has this name.
Result<ModelConfig> ConfigOfShape(std::string_view name);

}  // namespace winnow

#endif  // WINNOW_MODEL_CONFIG_SHAPES_H_
