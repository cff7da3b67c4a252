// The tiny models that the all-resident oracle runs, for tests.
#ifndef WINNOW_ENGINE_TESTING_TIER_MODELS_H_
#define WINNOW_ENGINE_TESTING_TIER_MODELS_H_

#include <memory>

#include "base/ids.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {

// Owns two: one, and a deep one of more layers, which is what a prompt larger
// than the pool is read by. Both have learned gates. Header only: tests alone
// include it.
class TierModels {
 public:
  TierModels() : tiny_(ReadTinyCase("llama")) {
    shallow_ = Load(tiny_, folder_.path());
    deep_ = Load(WithLayers(tiny_, 6), deep_folder_.path());
  }

  const TinyCase& tiny() const { return tiny_; }
  const Model& Get(bool is_deep) const { return is_deep ? *deep_ : *shallow_; }
  int64_t PageBytes(bool is_deep) const {
    const Model& model = Get(is_deep);
    return kPageTokens * KvBytesPerToken(model.config(), model.dtypes().kv);
  }

 private:
  static std::unique_ptr<Model> Load(const TinyCase& tiny,
                                     const std::filesystem::path& folder) {
    WriteTinyModel(tiny, folder, {.dtype = Dtype::kFloat32});
    auto model = std::make_unique<Model>(Model::Load(folder, {}).value());
    WriteTinyGates(model->config(), folder);
    return model;
  }

  const TemporaryFolder folder_{"tier_models"};
  const TemporaryFolder deep_folder_{"tier_models_deep"};
  const TinyCase tiny_;
  std::unique_ptr<Model> shallow_, deep_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_TESTING_TIER_MODELS_H_
