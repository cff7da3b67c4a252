// The tiny models of tests/golden/models: their tensors by formula, written as
// checkpoints, and their golden logits. tests/golden/README.md is the law.
#ifndef WINNOW_TESTS_GOLDEN_TINY_MODEL_H_
#define WINNOW_TESTS_GOLDEN_TINY_MODEL_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/forward/model.h"
#include "tensor/dtype.h"

namespace winnow {

// A tensor as a checkpoint stores it.
struct TinyTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;  // float32, before any rounding to a dtype
};

// One case, read whole. Test code: what cannot be read CHECK-fails.
struct TinyCase {
  std::string name;
  std::string config_json;
  std::vector<TinyTensor> tensors;  // in the order of the file
  std::vector<int32_t> tokens;      // [80]: the prompt
  int64_t planned_total_tokens = 0;
  std::vector<int32_t> logit_ids;  // [32]: vocabulary entries of `logits`
  std::vector<float> logits;       // [80, 32]: float32, by transformers
};

// Names of all cases, ascending.
std::vector<std::string> TinyCaseNames();

// Reads a case and makes its tensors. CHECKs their checksum.
TinyCase ReadTinyCase(const std::string& name);

// The same with as many layers, whose tensors are made by their names. What
// transformers makes of it nobody has asked: `logits` is empty.
TinyCase WithLayers(const TinyCase& model, int num_layers);

// How a case is written.
struct TinyCheckpoint {
  Dtype dtype = Dtype::kFloat32;  // values are rounded to it
  int num_shards = 1;             // > 1: with an index, tensors dealt in turn
};

// Writes config.json and safetensors for a case into `folder`.
void WriteTinyModel(const TinyCase& model, const std::filesystem::path& folder,
                    const TinyCheckpoint& form);
// Writes attn_gate_weights.safetensors beside a case: learned gates by the same
// formula, with norms, and what its metadata says of blocks, if anything.
void WriteTinyGates(const ModelConfig& config,
                    const std::filesystem::path& folder,
                    const std::string& block_tokens = "");
// Writes the case to a folder that goes again, and loads it from there.
std::unique_ptr<Model> LoadTinyModel(const TinyCase& tiny, Dtype dtype);

// Token `i` of the text of a case that begins at `first`, as long as is wanted.
inline int32_t TinyToken(const TinyCase& tiny, int first, int i) {
  return tiny
      .tokens[static_cast<size_t>(first + 7 * i * i) % tiny.tokens.size()];
}

}  // namespace winnow

#endif  // WINNOW_TESTS_GOLDEN_TINY_MODEL_H_
