// Who runs next: a pure function from a snapshot to a StepPlan.
#ifndef WINNOW_ENGINE_SCHEDULE_SCHEDULER_H_
#define WINNOW_ENGINE_SCHEDULE_SCHEDULER_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/schedule/step_cost.h"
#include "engine/schedule/step_plan.h"

namespace winnow {

// What the scheduler may know of a sequence.
struct SequenceSnapshot {
  SequenceId id;
  // Prompt and generated; where a step is under way, what it draws and computes
  // counts as if it had landed.
  int num_tokens = 0;
  int num_computed = 0;  // whose KV exists in all layers
  // A chunk on its way through the layers: its size, and the next layer.
  int chunk_tokens = 0;
  int next_layer = 0;
  // It is read layer by layer, and its life is promised at once: it never gives
  // way. While it is read, how many tokens have come through next_layer.
  bool layerwise = false;
  int layer_tokens = 0;
  bool admitted = false;
  int priority = 0;
  // Steps in which one that came later was admitted for its priority.
  int num_overtaken = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
  // Its first pages are on their way: it has room, and no turn yet.
  bool is_restoring = false;
  // Pages that it holds at the end of its longest life; of a fork, those that
  // it does not share with its prefix; of one that is layerwise, the most that
  // it holds at any time from now on.
  int64_t life_pages = 0;
  // Of the host, that one that is not admitted takes when it is.
  int64_t host_pages = 0;
  // Entries of a page table that it has at the end of its longest life, whether
  // or not others have these pages too; and what of these it is promised at
  // first, as expected_pages. None: all.
  int64_t table_pages = 0;
  std::optional<int64_t> expected_table_pages = {};
  // Who chooses what it reads, or -1; how many segments of summaries it is
  // promised there, whether or not others have them too; and, of one that is
  // not admitted, how many of them others have already.
  int selector = -1;
  int64_t num_segments = 0;
  int64_t shared_segments = 0;
  // What of the pages it is promised at first, where it may be preempted: at
  // least those for the tokens that it has. None: all.
  std::optional<int64_t> expected_pages = {};
  // Of a prefix: life_pages of its longest fork. 0: not a prefix.
  int64_t fork_pages = 0;
  std::optional<SequenceId> prefix = {};  // of a fork
  // Of one that is not admitted: pages of its life that others hold already.
  int64_t shared_pages = 0;
  // What is chosen in one layer is read in others: it runs all layers in one
  // step, whatever layers_per_step says.
  bool needs_all_layers = false;
  // Tokens whose rows' logits are wanted, besides those that are drawn from:
  // [first_scored, end_scored).
  int first_scored = 0;
  int end_scored = 0;

  bool is_prefix() const { return fork_pages > 0; }
  bool reads_by_layers() const { return layerwise && num_computed == 0; }
  int64_t promised_pages() const { return expected_pages.value_or(life_pages); }
  int64_t promised_table_pages() const {
    return expected_table_pages.value_or(table_pages);
  }
  // True of a prefix that is only held for its forks.
  bool is_read() const { return is_prefix() && num_computed == num_tokens; }
};

struct SchedulerLimits {
  int max_num_seqs = 1;            // admitted at once
  int max_num_batched_tokens = 1;  // rows a step
  int num_layers = 1;
  int layers_per_step = 0;  // 0: all; else prompts run layer range by range
  int64_t num_pages = 0;    // of the device pool
  int64_t num_free_host_pages = 0;  // that no sequence holds
  // That page tables have room for, of all who run.
  int64_t num_table_pages = std::numeric_limits<int64_t>::max();
  // That a step with a sequence that waits for one token is foretold to take at
  // most, as far as prompts are to be blamed; 0: however long.
  double max_step_ms = 0;

  // Of those that are admitted, as many as find a row each in a step: so beside
  // those who generate a prompt has one. (vLLM refuses to start where
  // max_num_seqs is more than max_num_batched_tokens.)
  int max_running() const {
    return std::min(max_num_seqs, max_num_batched_tokens);
  }
};

struct ScheduleInput {
  SchedulerLimits limits;
  std::vector<SequenceSnapshot> sequences;  // in order of arrival
  // What admitted sequences hold of pages that others of them hold too, each
  // page's first holder left out: life_pages count them more than once.
  int64_t repeated_pages = 0;
  bool admits = true;  // else it plans for those that have been admitted
  StepCost cost = {};  // as it was measured until now
  // Segments of summaries that may be promised, by selector: those that there
  // are, and what sequences hold together once more for each but one.
  std::vector<int64_t> num_segments = {};
};

struct Schedule {
  std::vector<SequenceId> admitted;  // now; in their turn
  // Who waits while one of these, which came later, starts for its priority.
  std::vector<SequenceId> overtaken;
  // That the first who waits would be admitted with; 0 where more pages would
  // not help it.
  int64_t num_lacking_pages = 0;
  // That are promised to nobody, and would not be to the first who waits.
  int64_t num_spare_pages = 0;
  StepPlan plan;

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// How often one that waits may be overtaken before it goes first.
inline constexpr int kMaxOvertaken = 256;

// Indices into `sequences`, which are in order of arrival: lower priorities
// first, equals as they came; but who has been overtaken too often goes before
// all others, so that none starves. vLLM's order has no such end.
std::vector<size_t> TurnOrder(std::span<const SequenceSnapshot> sequences);

// Those whose deadline is not after `now`, running or waiting, in order of
// arrival.
std::vector<SequenceId> ExpiredSequences(
    std::span<const SequenceSnapshot> sequences,
    std::chrono::steady_clock::time_point now);

// Admits in their turn (TurnOrder) while the pages promised to all admitted
// sequences fit the pool: pages that no sequence holds are promised to none,
// whatever lies in them. Where whole lives are promised, a running sequence
// never lacks a page; else the longest life at least fits beside all prefixes,
// so that whoever's turn is first can end if the others are preempted
// (PreemptionVictim). A prefix is promised room for its longest fork besides
// its own, so that one fork at least can always run: such a fork waits for no
// page. One that is layerwise is promised its longest life beside prefixes, as
// it is never preempted either. Forks wait for their prefix to be read, and
// keep sequences behind them from their room.
//
// Runs every sequence that waits for one token first, then prompts with the
// rows that are left; beside sequences that wait for one token, with those that
// fit max_step_ms by the cost that was measured, times its margin, of so much
// work as that covers (StepCost::Covers). The first prompt may have a page all
// the same, or what room there is below one, so that each step brings it on.
//
// Of what it may have it keeps half; prompts behind it that have less left than
// it get rows of the other half, those with least left first; then it gets what
// they left, then all others in order of arrival. So who is short does not wait
// for all of a long one before it; and whatever comes, as the first of those
// that are left always has half, no prompt is read later than in twice the
// steps in which all are read one after the other, and one for each before it.
// (Two orders at once, each at half its pace: Purohit, Svitkina and Kumar,
// NeurIPS 2018. vLLM and Sarathi-Serve, OSDI 2024, read prompts as they came;
// vLLM can bound a long one's rows, long_prefill_token_threshold, whoever
// waits.) A chunk that does not end its prompt ends at a page, but where there
// is no room to a page's end, or it would be less than the half it keeps.
//
// Sequences in the middle of their layers go on before new chunks start. If
// anything can run, the plan is not empty. Entries of page tables are promised
// as pages are, whoever shares them. REQUIRES: a fork's prefix is among the
// sequences, before it.
Schedule PlanStep(const ScheduleInput& input);

}  // namespace winnow

#endif  // WINNOW_ENGINE_SCHEDULE_SCHEDULER_H_
