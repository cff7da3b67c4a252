// Gates: what SeerAttention-R has trained beside a model.
#ifndef WINNOW_MODEL_WEIGHTS_GATES_H_
#define WINNOW_MODEL_WEIGHTS_GATES_H_

#include <filesystem>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/contract/gate_weights.h"
#include "base/result.h"
#include "model/config/config.h"
#include "tensor/buffer.h"

namespace winnow {

// Where they lie beside a checkpoint, if not among its tensors.
inline constexpr std::string_view kGatesFile = "attn_gate_weights.safetensors";

// True of a tensor of a checkpoint that is a gate's and no weight of the model.
bool IsGateTensor(std::string_view name);

// Every layer's gates, in float32 whatever they are stored in. Owns their
// memory: the host's, until it is moved to a device. Const from then on: any
// thread may read.
//
// Layout, as published (microsoft/SeerAttention, decode_sparse): tensors
// model.layers.N.self_attn.attn_gate.attngate_
//   linear_q.weight  [kv_heads, q heads of a group, head_dim, gate size]
//   linear_k.weight  [kv_heads, 3 * head_dim, gate size]: greatest, least, mean
//   qnorm.weight, knorm.weight  [gate size], both or neither, alike in all
//                    layers
// Its header's __metadata__ may say for which blocks they were trained:
// "block_tokens": "16" (lab/make_gates writes it; published ones say nothing).
// The gate size is the head_dim: gates are turned by the model's own RoPE.
class Gates {
 public:
  // From `folder`/attn_gate_weights.safetensors, or from the checkpoint's own
  // tensors where that file is not there. Fails where there are none, or where
  // one is missing or of the wrong shape or dtype, and where ReadBlockTokens
  // does.
  static Result<Gates> Load(const std::filesystem::path& folder,
                            const ModelConfig& config);

  // For blocks of how many tokens the gates of `folder` were trained; 0 where
  // no file of gates says so. Fails where it says no such number.
  static Result<int> ReadBlockTokens(const std::filesystem::path& folder);

  // Moves the weights to `backend`'s device, and frees the host's memory. Fails
  // where there is no room, or the device fails.
  Status Upload(Backend& backend);

  const GateWeights& layer(int layer) const {
    return layers_[static_cast<size_t>(layer)];
  }

 private:
  Buffer memory_;
  std::vector<GateWeights> layers_;
};

}  // namespace winnow

#endif  // WINNOW_MODEL_WEIGHTS_GATES_H_
