// The number of slot blocks of a sequence in each layer. Holds the curve of
// misses by budget, and moves slot blocks to where they save most.
#ifndef WINNOW_KV_SLOT_BUDGET_H_
#define WINNOW_KV_SLOT_BUDGET_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

inline constexpr int kNumSlotAges = 64;

// Counts of Fetch over some steps for one (sequence, layer) and all its KV
// heads, while it had `num_frames` slot blocks (backend/contract/slot_table.h).
struct SlotUsage {
  int num_frames = 0;
  int64_t num_misses = 0;
  std::array<int64_t, kNumSlotAges> hits_by_age = {};
  std::array<int64_t, kNumSlotAges + 1> slots_by_age = {};  // empty ones last
};

// The misses that `num_frames` slot blocks would have had in the same steps. A
// smaller cache by age holds the youngest entries of this one, so its misses
// follow from the hits by age. For a larger cache the curve is extrapolated:
// each further slot block saves as much as one of the oldest quarter, up to all
// misses. REQUIRES: usage.num_frames > 0.
double MissesWith(const SlotUsage& usage, int num_frames);

struct FrameLimits {
  int least = 0;  // that a sequence must have in every layer
  int most = 0;   // that a sequence may have in a layer
  int step = 1;   // slot blocks that move together
  // Cache slots in a slot block over all KV heads. Their content is lost when
  // the slot block moves.
  int slots_a_frame = 0;
};

// Limits for layers with `num_frames` slot blocks on average and at most
// `most`.
FrameLimits LimitsFor(int num_frames, int most, int slots_a_frame);

// Rows counted before slot blocks move: enough for a stable count, and few
// beside an answer (docs/decisions/101-replacement.md).
inline constexpr int kFrameMoveRows = 16;

// Redistributes slot blocks by usage; the sum stays. A step moves while its
// gain exceeds twice the cheapest loss plus one miss for each emptied cache
// slot. The factor two is there because gains are extrapolated and losses
// counted. Pure; ties go to the first.
std::vector<int> Redistribute(std::span<const SlotUsage> usages,
                              const FrameLimits& limits);
// As above, starting from `frames` instead of the counts in `usages`.
std::vector<int> Redistribute(std::span<const SlotUsage> usages,
                              std::vector<int> frames,
                              const FrameLimits& limits);

// The value of --cache-budget: tokens, or a multiple of the selection's budget.
struct CacheBudget {
  int64_t tokens = 0;
  double times = 0;  // used if tokens is 0

  // Slot blocks for a layer whose rows read at most `selected_tokens` of at
  // most `max_context` tokens. Never more than the context's pages.
  int FramesFor(int64_t selected_tokens, int64_t max_context) const;
};

// Gives `num_frames` or more to every marked layer and 0 to the others. Adds
// slot blocks, from the first layer on, until their sum fills KV blocks. Hence
// no two sequences share a KV block, and all its layer blocks come free
// together. REQUIRES: at least one layer is marked, and num_frames > 0.
std::vector<int> FillKvBlocks(int num_frames, const std::vector<bool>& layers);

}  // namespace winnow

#endif  // WINNOW_KV_SLOT_BUDGET_H_
