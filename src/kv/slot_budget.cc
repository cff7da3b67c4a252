#include "kv/slot_budget.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/ids.h"

namespace winnow {
namespace {

constexpr double kLeastGain = 2.0;

// Of the slots that there were, those of the youngest `share`: how many hits
// fell on the others.
double HitsBeyond(const SlotUsage& usage, double share) {
  double all = 0;
  for (const int64_t count : usage.slots_by_age) {
    all += static_cast<double>(count);
  }
  double kept = share * all, hits = 0;
  for (size_t age = 0; age < kNumSlotAges; ++age) {
    const auto slots = static_cast<double>(usage.slots_by_age[age]);
    const auto of_age = static_cast<double>(usage.hits_by_age[age]);
    // Within an age nothing tells which would have gone.
    const double lost =
        slots > 0 ? 1.0 - std::clamp(kept / slots, 0.0, 1.0) : kept <= 0;
    hits += of_age * lost;
    kept -= slots;
  }
  return hits;
}

}  // namespace

double MissesWith(const SlotUsage& usage, int num_frames) {
  CHECK(usage.num_frames > 0 && num_frames >= 0,
        "usage of {} frames, asked for {}", usage.num_frames, num_frames);
  const auto misses = static_cast<double>(usage.num_misses);
  const double share =
      static_cast<double>(num_frames) / static_cast<double>(usage.num_frames);
  if (share <= 1) return misses + HitsBeyond(usage, share);
  const double a_share = HitsBeyond(usage, 0.75) / 0.25;
  return std::max(0.0, misses - (share - 1) * a_share);
}

FrameLimits LimitsFor(int num_frames, int most, int slots_a_frame) {
  constexpr int kSteps = 16;
  return {.least = std::max(1, num_frames / 2),
          .most = std::min(most, 2 * num_frames),
          .step = std::max(1, num_frames / kSteps),
          .slots_a_frame = slots_a_frame};
}

std::vector<int> Redistribute(std::span<const SlotUsage> usages,
                              const FrameLimits& limits) {
  std::vector<int> frames;
  for (const SlotUsage& usage : usages) frames.push_back(usage.num_frames);
  return Redistribute(usages, std::move(frames), limits);
}

std::vector<int> Redistribute(std::span<const SlotUsage> usages,
                              std::vector<int> frames,
                              const FrameLimits& limits) {
  CHECK(limits.step > 0 && limits.least > 0 && limits.slots_a_frame >= 0,
        "step={} least={} slots_a_frame={}", limits.step, limits.least,
        limits.slots_a_frame);
  const auto change = [&](size_t i, int by) {
    return MissesWith(usages[i], frames[i] + by) -
           MissesWith(usages[i], frames[i]);
  };
  for (;;) {
    size_t winner = usages.size(), loser = usages.size();
    double gain = 0, loss = 0;
    for (size_t i = 0; i < usages.size(); ++i) {
      if (frames[i] + limits.step > limits.most) continue;
      const double saved = -change(i, limits.step);
      if (saved > gain) winner = i, gain = saved;
    }
    for (size_t i = 0; i < usages.size(); ++i) {
      if (i == winner || frames[i] - limits.step < limits.least) continue;
      const double lost = change(i, -limits.step);
      if (loser == usages.size() || lost < loss) loser = i, loss = lost;
    }
    if (winner == usages.size() || loser == usages.size()) return frames;
    if (gain <= kLeastGain * loss + limits.step * limits.slots_a_frame) {
      return frames;
    }
    frames[winner] += limits.step;
    frames[loser] -= limits.step;
  }
}

int CacheBudget::FramesFor(int64_t selected_tokens, int64_t max_context) const {
  const int64_t wanted =
      tokens > 0 ? tokens
                 : static_cast<int64_t>(
                       std::ceil(times * static_cast<double>(selected_tokens)));
  return static_cast<int>(std::min(PagesFor(wanted), PagesFor(max_context)));
}

std::vector<int> FillKvBlocks(int num_frames, const std::vector<bool>& layers) {
  const int64_t num_layers = std::ssize(layers);
  const int64_t num_marked = std::ranges::count(layers, true);
  CHECK(num_frames > 0 && num_marked > 0, "num_frames={} layers={}", num_frames,
        num_marked);
  const int64_t num_layer_blocks =
      (num_frames * num_marked + num_layers - 1) / num_layers * num_layers;
  std::vector<int> frames;
  int64_t num_more = num_layer_blocks % num_marked;
  for (const bool is_marked : layers) {
    const int64_t more = is_marked && num_more-- > 0 ? 1 : 0;
    frames.push_back(
        is_marked ? static_cast<int>(num_layer_blocks / num_marked + more) : 0);
  }
  return frames;
}

}  // namespace winnow
