// Activations: the memory that a step works in.
#ifndef WINNOW_MODEL_FORWARD_ACTIVATIONS_H_
#define WINNOW_MODEL_FORWARD_ACTIVATIONS_H_

#include "backend/backend.h"
#include "model/forward/model.h"

namespace winnow {

// The scratch memory of Forward, for one step at a time. Owns one device
// buffer, carved by name; what stands in it means nothing between steps. Used
// by the thread that uses its queue.
class Activations {
 public:
  // The most that one step may ask for.
  struct Limits {
    int64_t max_rows = 0;
    int64_t max_logit_rows = 0;
    bool keeps_q_pre = false;  // q before RoPE, which learned gates look at
  };

  // Device bytes that Allocate takes.
  static size_t NumBytes(const Model& model, const Limits& limits);
  static Result<Activations> Allocate(Backend& backend, const Model& model,
                                      const Limits& limits);

  // Views for one step. The three groups share their memory. Outputs of
  // products that share an input are columns of one array, as
  // JoinedWeights makes them.
  struct Views {
    View cos_sin;  // f32 [rows, rotary_dim]
    View normed;   // [rows, hidden]: the input of products
    // Attention.
    View qkv;       // [rows, (q_heads + 2 * kv_heads) * head_dim]
    View q;         // [rows, q_heads * head_dim]: columns of qkv
    View k, v;      // [rows, kv_heads * head_dim]: columns of qkv
    View q_pre;     // [rows, q_heads * head_dim], or empty
    View attended;  // [rows, q_heads * head_dim]
    // Feed-forward.
    View gate_up;   // [rows, 2 * intermediate]
    View gate, up;  // [rows, intermediate]: columns of gate_up
    // Logits.
    View gathered;       // f32 [wanted, hidden]
    View gathered_norm;  // [wanted, hidden]
  };
  // REQUIRES: both within the limits.
  Views For(int64_t num_rows, int64_t num_logit_rows) const;

 private:
  // What the views' shapes follow from.
  struct Widths {
    int64_t hidden, q, kv, intermediate, rotary;
    Dtype dtype;
  };
  static Widths WidthsOf(const Model& model);
  // Places a step's views one after another from `base` on, which may be null
  // to learn their bytes alone.
  static size_t Place(const Widths& widths, const Limits& rows, std::byte* base,
                      Views& views);
  Activations(const Widths& widths, const Limits& limits, Buffer buffer)
      : widths_(widths), limits_(limits), buffer_(std::move(buffer)) {}

  Widths widths_;
  Limits limits_;
  Buffer buffer_;
};

}  // namespace winnow

#endif  // WINNOW_MODEL_FORWARD_ACTIVATIONS_H_
