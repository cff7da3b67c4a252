// Learned gates of one layer (SeerAttention-R, arXiv 2506.08889), as plain data
// that kernels read. Owned by model/.
#ifndef WINNOW_BACKEND_CONTRACT_GATE_WEIGHTS_H_
#define WINNOW_BACKEND_CONTRACT_GATE_WEIGHTS_H_

#include "tensor/view.h"

namespace winnow {

// What makes a KV head's query and a block's key from q and keys before RoPE.
// A gate's vectors are as long as a head's, and are turned by the same RoPE.
struct GateWeights {
  View q;       // f32 [kv_heads, group_heads * k_dim, k_dim]
  View k;       // f32 [kv_heads, 3 * k_dim, k_dim]: greatest, least, mean
  View q_norm;  // f32 [k_dim]: weights of an RMS norm; or empty
  View k_norm;  // f32 [k_dim], or empty

  static constexpr float kNormEpsilon = 1e-6f;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_GATE_WEIGHTS_H_
