#include "simulate/replay.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kv/slot_ledger.h"

namespace winnow {
namespace {

const SequenceId kOnly{1};

int64_t TokensOf(const TraceList& list, size_t last_level) {
  int64_t count = 0;
  for (size_t level = 0; level <= last_level; ++level) {
    for (const Pick& pick : list.bands[level]) {
      count += std::popcount(pick.tokens);
    }
  }
  return count;
}

// What the rows of a step read, over choosing layers and KV heads.
int64_t ReadTokens(const TraceHeader& header, const TraceStep& step,
                   int64_t first_position) {
  const auto budget = static_cast<size_t>(header.budget_level());
  int64_t sum = 0;
  for (const auto& rows : step.layers) {
    int64_t context = first_position;
    for (const TraceRowLists& lists : rows) {
      ++context;
      for (const TraceList& list : lists) {
        sum += list.reads_all ? context * header.num_kv_heads
                              : TokensOf(list, budget);
      }
    }
  }
  return sum;
}

// One request's slots in all layers.
class RequestSlots {
 public:
  RequestSlots(const ReplayInput& input, const ReplayOptions& options)
      : input_(input),
        num_pages_(
            PagesFor(input.request.first_position + input.request.num_rows())),
        ledger_(LedgerOptions(input.header, num_pages_)),
        frames_(static_cast<size_t>(input.header.num_choosing_layers()),
                FramesOf(input, options.budget)),
        usages_(frames_.size()) {
    limits_ = LimitsFor(
        frames_.empty() ? 1 : frames_[0], ledger_.options().max_frames,
        kPageTokens / input.options.slot_tokens * input.header.num_kv_heads);
    for (const auto& steps : input.pieces) {
      caches_.push_back(MakeSlotCache(options.rule, steps));
      if (!options.ghosts) continue;
      ghosts_.push_back(MakeSlotCache(options.rule, steps));
      ghosts_.back()->Resize(NumSlots(limits_.most));
    }
    ledger_.Open(kOnly);
    CHECK(ledger_.Cover(kOnly, 0, num_pages_), "pages={}", num_pages_);
    Resize();
  }
  ~RequestSlots() { ledger_.Close(kOnly); }
  RequestSlots(const RequestSlots&) = delete;
  RequestSlots& operator=(const RequestSlots&) = delete;

  SlotCounts Fetch(size_t step) {
    SlotCounts sum;
    for (size_t i = 0; i < caches_.size(); ++i) {
      const StepPieces& pieces = input_.pieces[i][step];
      SlotCounts counts, used;
      caches_[i]->Fetch(pieces, counts);
      sum.Add(counts);
      if (!ghosts_.empty()) ghosts_[i]->Fetch(pieces, used);
      Use(ghosts_.empty() ? counts : used,
          usages_[i / static_cast<size_t>(input_.header.num_kv_heads)]);
    }
    return sum;
  }
  // Before the second step.
  void Fill(FirstSlots what) {
    const auto heads = static_cast<size_t>(input_.header.num_kv_heads);
    for (size_t i = 0; i < caches_.size(); ++i) {
      StepPieces step = FirstPieces(what, i, NumSlots(frames_[i / heads]));
      SlotCounts not_counted;
      caches_[i]->Fetch(step, not_counted);
    }
  }
  // Moves frames to where they save most, by what happened since the last time.
  void Redistribute() {
    for (size_t layer = 0; layer < frames_.size(); ++layer) {
      usages_[layer].num_frames =
          ghosts_.empty() ? frames_[layer] : limits_.most;
    }
    frames_ = winnow::Redistribute(usages_, frames_, limits_);
    std::ranges::fill(usages_, SlotUsage());
    Resize();
  }
  int64_t slot_tokens() const {
    int64_t sum = 0;
    for (const int frames : frames_) sum += int64_t{frames} * kPageTokens;
    return sum;
  }

 private:
  static SlotLedgerOptions LedgerOptions(const TraceHeader& header,
                                         int64_t num_pages) {
    const int max_frames =
        static_cast<int>(std::min<int64_t>(num_pages, kMaxSlots));
    const int layers = std::max(1, header.num_choosing_layers());
    return {.num_layers = layers,
            .num_segments = PagesFor(num_pages, kSlotSegmentPages),
            .num_chunks = layers * PagesFor(max_frames, kSlotChunkFrames),
            .max_frames = max_frames};
  }
  static void Use(const SlotCounts& counts, SlotUsage& usage) {
    usage.num_misses += counts.of(kMissesCount);
    for (size_t age = 0; age < usage.slots_by_age.size(); ++age) {
      usage.slots_by_age[age] += counts.fetch[kSlotsByAgeCount + age];
    }
    for (size_t age = 0; age < usage.hits_by_age.size(); ++age) {
      usage.hits_by_age[age] += counts.fetch[kHitsByAgeCount + age];
    }
  }

  void Resize() {
    if (frames_.empty()) return;
    const int64_t kv_blocks = ledger_.KvBlocksToSplit(kOnly, frames_);
    for (int64_t i = 0; i < kv_blocks; ++i)
      ledger_.Split(KvBlockId(next_kv_block_++));
    CHECK(ledger_.Resize(kOnly, frames_), "layers={}", frames_.size());
    const auto heads = static_cast<size_t>(input_.header.num_kv_heads);
    for (size_t i = 0; i < caches_.size(); ++i) {
      const auto layer = static_cast<int>(i / heads);
      const auto frames = std::ssize(ledger_.frames(kOnly, layer));
      caches_[i]->Resize(NumSlots(static_cast<int>(frames)));
    }
  }
  // As if the first step had picked them.
  StepPieces FirstPieces(FirstSlots what, size_t cache, int num_slots) const {
    const StepPieces& first = input_.pieces[cache].front();
    StepPieces step;
    step.first_position = first.first_position;
    step.end_position = first.end_position;
    if (what == FirstSlots::kNewest) {
      const int64_t end = first.end_position / input_.options.slot_tokens;
      const int64_t end_closed =
          end - end % (kPageTokens / input_.options.slot_tokens);
      for (int64_t i = std::max<int64_t>(0, end_closed - num_slots);
           i < end_closed; ++i) {
        step.picks.push_back({static_cast<uint32_t>(i), false});
      }
    }
    if (what >= FirstSlots::kPicks) step.picks = first.picks;
    if (what == FirstSlots::kRanks) {
      step.picks.insert(step.picks.end(), first.hints.begin(),
                        first.hints.end());
    }
    return step;
  }
  int NumSlots(int num_frames) const {
    return num_frames * kPageTokens / input_.options.slot_tokens;
  }

  const ReplayInput& input_;
  const int64_t num_pages_;
  SlotLedger ledger_;
  uint32_t next_kv_block_ = 0;
  FrameLimits limits_;
  std::vector<int> frames_;                         // by choosing layer
  std::vector<SlotUsage> usages_;                   // by choosing layer
  std::vector<std::unique_ptr<SlotCache>> caches_;  // by layer and KV head
  std::vector<std::unique_ptr<SlotCache>> ghosts_;  // likewise, or none
};

bool CountsAges(SlotRule rule) {
  return rule == SlotRule::kAge || rule == SlotRule::kKeep ||
         rule == SlotRule::kHold || rule == SlotRule::kHint;
}

}  // namespace

void ReplayTotals::Add(const ReplayTotals& other) {
  counts.Add(other.counts);
  num_rows += other.num_rows;
  context_tokens += other.context_tokens;
  read_tokens += other.read_tokens;
  slot_tokens += other.slot_tokens;
}

double ReplayTotals::hit_rate() const {
  if (counts.wanted == 0) return 1;
  return 1.0 - static_cast<double>(counts.missed) /
                   static_cast<double>(counts.wanted);
}

int64_t MostSelected(const TraceHeader& header, const TraceRequest& request) {
  const auto budget = static_cast<size_t>(header.budget_level());
  int64_t most = 0;
  for (const TraceStep& step : request.steps) {
    for (const auto& rows : step.layers) {
      for (const TraceRowLists& lists : rows) {
        for (const TraceList& list : lists) {
          if (!list.reads_all) most = std::max(most, TokensOf(list, budget));
        }
      }
    }
  }
  return most;
}

int FramesOf(const ReplayInput& input, const CacheBudget& budget) {
  const int64_t context =
      input.request.first_position + input.request.num_rows();
  const int frames =
      budget.FramesFor(MostSelected(input.header, input.request), context);
  return std::clamp(frames, 1,
                    kMaxSlots * input.options.slot_tokens / kPageTokens);
}

ReplayTotals Replay(const ReplayInput& input, const ReplayOptions& options) {
  const TraceRequest& request = input.request;
  RequestSlots slots(input, options);
  const bool resizes = options.resize_rows > 0 && CountsAges(options.rule.rule);
  ReplayTotals totals;
  int64_t rows_done = 0, rows_since = 0;
  for (size_t i = 0; i < request.steps.size(); ++i) {
    const TraceStep& step = request.steps[i];
    const int64_t first = request.first_position + rows_done;
    rows_done += step.num_rows;
    if (i == 0 && options.first_slots) {
      slots.Fill(*options.first_slots);
      continue;
    }
    if (rows_done > options.max_rows) break;
    const SlotCounts counts = slots.Fetch(i);
    rows_since += step.num_rows;
    if (rows_done > options.warm_rows) {
      const int64_t rows = step.num_rows;
      totals.Add({.counts = counts,
                  .num_rows = rows,
                  .context_tokens = rows * first + rows * (rows + 1) / 2,
                  .read_tokens = ReadTokens(input.header, step, first),
                  .slot_tokens = rows * slots.slot_tokens()});
    }
    if (resizes && rows_since >= options.resize_rows) {
      slots.Redistribute();
      rows_since = 0;
    }
  }
  return totals;
}

}  // namespace winnow
