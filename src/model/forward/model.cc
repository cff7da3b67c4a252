#include "model/forward/model.h"

#include "model/config/shapes.h"

namespace winnow {

Result<Model> Model::Load(const std::filesystem::path& folder,
                          const LoadOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return MakeError(
        ErrorCode::kNotFound,
        "{}: must be a folder with config.json and "
        "model.safetensors, is {}",
        folder.string(),
        std::filesystem::exists(folder, ignored) ? "a file" : "not there");
  }
  ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(folder));
  ASSIGN_OR_RETURN(Weights weights, Weights::Load(folder, config, options));
  return Model(folder, std::move(config), std::move(weights));
}

Result<Model> Model::OfShape(std::string_view shape, Dtype dtype,
                             Backend& backend) {
  ASSIGN_OR_RETURN(ModelConfig config, ConfigOfShape(shape));
  ASSIGN_OR_RETURN(Weights weights, Weights::Random(config, dtype, backend));
  return Model({}, std::move(config), std::move(weights));
}

}  // namespace winnow
