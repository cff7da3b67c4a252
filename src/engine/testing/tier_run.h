// Runs of the all-resident oracle's workloads: with room for everything, and in
// little room with interruptions. For tests.
#ifndef WINNOW_ENGINE_TESTING_TIER_RUN_H_
#define WINNOW_ENGINE_TESTING_TIER_RUN_H_

#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "engine/ahead_counter.h"
#include "engine/engine.h"
#include "engine/testing/tier_workload.h"

namespace winnow {

class TierListener final : public RequestObserver {
 public:
  // Of a request that ends at its token `stops_at`; `ahead`: the device, if it
  // counts steps ahead.
  explicit TierListener(int stops_at, const AheadCounter* ahead = nullptr)
      : stops_at_(stops_at), ahead_(ahead) {}

  void OnPrefill(int done, int total) override;
  bool OnToken(const GeneratedToken& token) override;
  void OnFinish(const Completion& given) override;

  // What was drawn, and the alternatives, in turn.
  std::vector<std::pair<int32_t, float>> bits;
  Completion completion;
  int num_tokens = 0;
  bool finished = false;
  bool refused = false;
  // It ended while a step was under way that had a row of it.
  bool was_ahead = false;

 private:
  const int stops_at_;
  const AheadCounter* const ahead_;
  int num_read_ = 0;
};

// What came about, so that a test can tell that it has shown something.
struct TierTotals {
  int num_layerwise = 0;              // that were read layer by layer
  int num_layerwise_with_others = 0;  // beside which others were admitted
  int num_layerwise_cached = 0;       // that began with pages of others
  int64_t num_moved_frames = 0;       // between layers
  int num_refused = 0;                // for which there was never room
  int num_brought_back = 0;           // times that pages were promoted
  int num_whole_again = 0;            // of these
  int num_preemptions = 0;
  int num_forced = 0;  // of these
  int num_fetched = 0;
  int num_cached = 0;
  int num_forks = 0;
  int num_cancelled = 0;
  int num_stopped = 0;      // before their max_tokens
  int num_rolled_back = 0;  // of these, with a row of a step ahead
  std::set<int> selectors_with_slots;
  int num_with_slots = 0;
  int64_t num_hints = 0;  // pieces that were fetched
  int num_forks_with_slots = 0;
  int num_missing = 0;  // had slots, which did not have all that was picked
  int num_back = 0;     // had slots, and was preempted
  int64_t num_from_disk = 0;                            // pages
  int num_from_disk_with_slots = 0;                     // requests
  int64_t num_failed_reads = 0, num_failed_writes = 0;  // pieces
  int num_dead = 0;  // engines whose process ended in the middle
};

// Everything at once, each request with a prompt of its own.
std::vector<TierListener> RunResident(Backend& backend,
                                      const TierModels& models,
                                      const TierWorkload& workload);

// A workload in the room that it says, while requests are preempted, leave, and
// go on with slots as drawn, and every invariant holds after every step.
class PressedRun {
 public:
  // REQUIRES: all that is named outlives the run. `ahead`: the device, where it
  // counts steps ahead.
  PressedRun(Backend& backend, const TierModels& models,
             const TierWorkload& workload, TierTotals& totals)
      : backend_(backend),
        models_(models),
        workload_(workload),
        totals_(totals) {}
  void CountAhead(const AheadCounter& ahead) { ahead_ = &ahead; }

  struct Life {
    uint64_t seed = 0;           // of what is drawn on the way
    FaultyDisk* disk = nullptr;  // null: none
    bool is_first = true;        // engine on that disk
    bool may_die = false;        // with its process, where the trouble is that
  };
  // One engine's. Where it died, requests have not all finished, and some were
  // never asked.
  std::vector<TierListener> Run(const Life& life);
  bool died() const { return died_; }

 private:
  int Below(int end) {
    return static_cast<int>(random_() % static_cast<uint64_t>(end));
  }
  SequenceId AnyAsked() {
    return ids_[static_cast<size_t>(Below(static_cast<int>(ids_.size())))];
  }
  std::unique_ptr<DiskStore> OpenDisk(const Life& life) const;
  void RunBriefOne();
  void RunToTheEnd(const Life& life, std::vector<TierListener>& listeners);
  void AskNext(TierListener& listener);
  // What the engine may be made to do between any two steps.
  void Interrupt();
  void PreemptAny();
  void PromoteAny();
  void MoveAnyFrames();
  // What befalls the disk now; false where the process has died.
  bool TroubleDisk(const Life& life);
  void CountLayerwise();
  void CountDisk();
  void ExpectSound() const;
  void ExpectNothingIsHeld() const;

  Backend& backend_;
  const TierModels& models_;
  const TierWorkload& workload_;
  TierTotals& totals_;
  const AheadCounter* ahead_ = nullptr;
  std::mt19937_64 random_;
  std::unique_ptr<Engine> engine_;
  std::vector<SequenceId> ids_;  // of those asked
  std::optional<SequenceId> prefix_;
  std::set<SequenceId> layerwise_;
  bool is_troubled_ = false;
  bool died_ = false;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_TESTING_TIER_RUN_H_
