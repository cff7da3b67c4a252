// Weights: a checkpoint's tensors by what they do.
#ifndef WINNOW_MODEL_WEIGHTS_WEIGHTS_H_
#define WINNOW_MODEL_WEIGHTS_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "model/config/config.h"
#include "model/weights/checkpoint.h"
#include "model/weights/joined_weights.h"
#include "model/weights/weight_digests.h"
#include "tensor/buffer.h"
#include "tensor/view.h"

namespace winnow {

// One layer's weights; a bias or norm that the model does not have is empty.
struct LayerWeights {
  View input_norm;  // [hidden]
  // [q_heads * head_dim, hidden], then [kv_heads * head_dim, hidden] twice.
  JoinedWeights qkv;
  View q_norm, k_norm;       // [head_dim]
  LinearWeights o;           // [hidden, q_heads * head_dim]
  View post_attention_norm;  // [hidden]
  JoinedWeights gate_up;     // [intermediate, hidden] twice
  LinearWeights down;        // [hidden, intermediate]
};

// Called with bytes of weights that are in memory, and of all there are.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

struct WeightOptions {
  // The element type to compute in. Empty: the one that the embedding is
  // stored in.
  std::optional<Dtype> dtype = {};
  // Where set, every page of the weights is touched once while loading, so
  // that the first step does not wait for the disk; called as that proceeds.
  LoadProgress progress = {};
  // Where set, all bytes of all files are hashed while loading, but for those
  // of files that the memory knows: Weights::digests. `digest_progress` is
  // called as that proceeds.
  const DigestMemory* digests = nullptr;
  LoadProgress digest_progress = {};
};

// Views of all weights, of one dtype. Owns the mapped files behind most of
// them and copies of the rest: tensors stored in another dtype, and those that
// a file holds unaligned, in host memory; after Upload or Random, of device
// memory. Const from then on: any thread may read.
class Weights {
 public:
  // Opens `folder` and finds every tensor that `config` implies: none missing,
  // none besides them, shapes as implied, dtype bfloat16, float16 or float32.
  static Result<Weights> Load(const std::filesystem::path& folder,
                              const ModelConfig& config,
                              const WeightOptions& options);

  // Weights that nobody trained, in `backend`'s memory, to measure with:
  // normal numbers of standard deviation 0.02, and norms that are one. The same
  // numbers come again every few megabytes.
  static Result<Weights> Random(const ModelConfig& config, Dtype dtype,
                                Backend& backend);

  // Moves all weights to the backend's own memory, and lets go of the files.
  // On failure they may only be destroyed.
  Status Upload(Backend& backend, const LoadProgress& progress);

  Dtype dtype() const { return embedding.dtype; }
  int64_t num_parameters() const { return num_parameters_; }
  // What the files hash to; none where WeightOptions did not ask.
  const std::vector<FileDigest>& digests() const { return digests_; }
  // Fails where a file that was hashed, and is read where it is mapped, has
  // changed since it was opened: what was computed by now may be of other
  // weights. What was computed before a call that succeeds is of these.
  Status CheckFiles() const;
  // Bytes used in place in the files, and bytes of converted copies.
  int64_t mapped_bytes() const { return mapped_bytes_; }
  int64_t copied_bytes() const { return copied_bytes_; }

  View embedding;        // [vocab, hidden]
  View final_norm;       // [hidden]
  WeightMatrix lm_head;  // [vocab, hidden]; the embedding where they are tied
  std::vector<LayerWeights> layers;

 private:
  Checkpoint checkpoint_;
  std::vector<FileDigest> digests_;
  Buffer copies_;
  Buffer device_memory_;  // after Upload or Random
  int64_t num_parameters_ = 0;
  int64_t mapped_bytes_ = 0;
  int64_t copied_bytes_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_MODEL_WEIGHTS_WEIGHTS_H_
