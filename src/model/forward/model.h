// Model: a checkpoint ready to run.
#ifndef WINNOW_MODEL_FORWARD_MODEL_H_
#define WINNOW_MODEL_FORWARD_MODEL_H_

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "model/config/config.h"
#include "model/forward/dtypes.h"
#include "model/weights/weights.h"

namespace winnow {

using LoadOptions = WeightOptions;

// The architecture and the weights of one checkpoint. Owns the files behind
// the weights. Const after Load: any thread may read.
class Model {
 public:
  // Loads a Hugging Face folder: config.json, generation_config.json where
  // there is one, and safetensors.
  static Result<Model> Load(const std::filesystem::path& folder,
                            const LoadOptions& options);

  // A model of this shape with random weights in `backend`'s memory.
  static Result<Model> OfShape(std::string_view shape, Dtype dtype,
                               Backend& backend);

  // Moves the weights to the backend's memory, where that is not the host's.
  // On failure the model may only be destroyed.
  Status Upload(Backend& backend, const LoadProgress& progress) {
    if (backend.attributes().device_is_host) return Ok{};
    return weights_.Upload(backend, progress);
  }

  // Where it was loaded from, for what lies beside its weights; empty: nowhere.
  const std::filesystem::path& folder() const { return folder_; }
  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  // KV is kept in what is computed in.
  Dtypes dtypes() const {
    return {.compute = weights_.dtype(), .kv = weights_.dtype()};
  }

 private:
  Model(std::filesystem::path folder, ModelConfig config, Weights weights)
      : folder_(std::move(folder)),
        config_(std::move(config)),
        weights_(std::move(weights)) {}

  std::filesystem::path folder_;
  ModelConfig config_;
  Weights weights_;
};

}  // namespace winnow

#endif  // WINNOW_MODEL_FORWARD_MODEL_H_
