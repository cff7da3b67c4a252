// How many frames a sequence gets in each layer: the curve of misses by budget,
// and the decision that moves frames to where they save most.
#ifndef WINNOW_KV_SLOT_BUDGET_H_
#define WINNOW_KV_SLOT_BUDGET_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

inline constexpr int kNumSlotAges = 64;

// What Fetch has counted over some steps, of one (sequence, layer) and all its
// KV heads, while it had `num_frames` (backend/contract/slot_table.h).
struct SlotUsage {
  int num_frames = 0;
  int64_t num_misses = 0;
  std::array<int64_t, kNumSlotAges> hits_by_age = {};
  std::array<int64_t, kNumSlotAges + 1> slots_by_age = {};  // empty ones last
};

// m(B'): how many misses `num_frames` would have brought in the same steps.
// A cache by age that is smaller holds the youngest of what this one holds: so
// its misses follow from the hits on slots that are older. Beyond, the curve
// goes on as it ends: each frame saves what a frame of the oldest quarter saves
// now, and never more than all. REQUIRES: the usage has some frames.
double MissesWith(const SlotUsage& usage, int num_frames);

struct FrameLimits {
  int least = 0;  // a sequence must have, in every layer
  int most = 0;   // it may have
  int step = 1;   // frames that change hands together
  // Of all KV heads: what they hold is lost when they change hands.
  int slots_a_frame = 0;
};

// For layers that have `num_frames` on the average and never more than `most`.
FrameLimits LimitsFor(int num_frames, int most, int slots_a_frame);

// Counted before frames change hands: long enough to tell, and short beside an
// answer (docs/decisions/101-replacement.md).
inline constexpr int kFrameMoveRows = 16;

// Frames by usage, of the same sum: as long as one gains by a step at least
// twice what the cheapest other one loses (the gain is extrapolated, the loss
// was counted) and a miss for each slot that is emptied by it, a step changes
// hands. Pure; ties go to the first.
std::vector<int> Redistribute(std::span<const SlotUsage> usages,
                              const FrameLimits& limits);
// The same from `frames` on, whatever there were when the usages were counted.
std::vector<int> Redistribute(std::span<const SlotUsage> usages,
                              std::vector<int> frames,
                              const FrameLimits& limits);

// What --cache-budget says: tokens, or a multiple of the selection's budget.
struct CacheBudget {
  int64_t tokens = 0;
  double times = 0;  // where tokens is 0

  // Frames for a layer in which rows of at most `max_context` tokens read at
  // most `selected_tokens`; never more than the context has pages.
  int FramesFor(int64_t selected_tokens, int64_t max_context) const;
};

// `num_frames` at least for every layer that is marked, none for another: and
// as many more, from the first on, as make whole KV blocks of them, a layer
// block a layer each. So nobody has layer blocks of a KV block that another has
// layer blocks of, and all come free together. REQUIRES: a layer is marked,
// num_frames > 0.
std::vector<int> FillKvBlocks(int num_frames, const std::vector<bool>& layers);

}  // namespace winnow

#endif  // WINNOW_KV_SLOT_BUDGET_H_
