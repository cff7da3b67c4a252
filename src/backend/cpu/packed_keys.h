// PackedKeys: the tokens that a unit has picked, side by side, where they lie
// scattered over its pages.
#ifndef WINNOW_BACKEND_CPU_PACKED_KEYS_H_
#define WINNOW_BACKEND_CPU_PACKED_KEYS_H_

#include "backend/cpu/read_kernels.h"
#include "backend/cpu/read_workspace.h"

namespace winnow {

// Kernels take in sixteen keys where one of them is picked. Of single tokens,
// as clusters have them, two or three are picked a page: packed, the four pages
// of a unit are half a page. What is packed depends on the picks of the unit
// alone; a run of tokens never is, so that what reads everything keeps its
// bits. Owns nothing: one unit's keys and values are the caller's scratch.
class PackedKeys {
 public:
  // Numbers of a token's key and value, and the bytes of each.
  struct Shape {
    int k_stride = 0;
    int v_stride = 0;  // 0: values are in the keys
    int64_t element_bytes = 0;
  };
  PackedKeys(const Shape& shape, ScratchCutter& scratch);

  // Whether a unit that picks these tokens is better packed: that leaves at
  // most half the halves.
  static bool AreScattered(const uint32_t (&tokens)[kTilePages]);

  // Whether `unit` is: `packed` is then as Pack will leave it, and the keys and
  // values that it takes are fetched.
  bool Find(const TileKeys& unit, TileKeys& packed) const;

  // Copies the unit's tokens to where its packed keys are, until the next call.
  // REQUIRES: Find was true.
  void Pack(const TileKeys& unit) const;

 private:
  const int64_t k_bytes_, v_bytes_;  // of a token
  std::byte* const k_;               // [kMostHalves * kHalfTokens, k_stride]
  std::byte* const v_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_PACKED_KEYS_H_
