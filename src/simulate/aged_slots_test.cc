// AgedSlots beside Fetch itself: the scalar backend's slots, ages and counts.
#include "simulate/aged_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backend/conformance/slot_case.h"
#include "backend/cpu/cpu_backend.h"
#include "simulate/random_trace.h"

namespace winnow {
namespace {

// The lists of a step's rows, as a trace has them.
using RowLists = std::vector<std::vector<std::vector<Pick>>>;

// One request on a backend, of which no page before `closed` is whole.
class BackendSlots {
 public:
  BackendSlots(const KvShape& shape, RequestRows all_rows, int slot_tokens,
               RandomSource& random)
      : paged_(shape, {all_rows}, random),
        slots_(paged_, slot_tokens, {all_rows.first_position / kPageTokens},
               random) {
    do {
      slots_.Draw(0, 20, random);
    } while (slots_.IsWhole(0));
  }

  int num_slots() const { return slots_.NumSlots(0); }

  struct Step {
    int first_position = 0;
    RowLists picks, hints;    // by row; of no lists: it reads every page
    int least_hint_age = -1;  // below 0: without hints
  };
  void Fetch(const Step& step, SlotCounts& counts) {
    const auto num_rows = static_cast<int32_t>(step.picks.size());
    const std::vector<RequestRows> rows = {{step.first_position, num_rows, 0}};
    // What a step uploads is given back with its device.
    TestDevice device(
        MakeCpuBackend({.num_threads = 1, .kernels = CpuKernels::kScalar}));
    const SlotCase::OnDevice on = slots_.Upload(device, false);
    FetchArgs args;
    args.slots = &on.slots;
    args.source.kind = AttendSource::Kind::kPicks;
    args.source.picks = Upload(device, step.picks);
    if (step.least_hint_age >= 0) {
      args.hints = Upload(device, step.hints);
      args.least_hint_age = step.least_hint_age;
    }
    args.counts =
        device.Upload(TestArray(Dtype::kUInt32, {1, kNumFetchCounts}));
    device.backend().Fetch(device.queue(), paged_.Step(device, rows, 0), args,
                           on.cache);
    slots_.Download(device, on);
    const TestArray added = device.Download(args.counts);
    for (size_t i = 0; i < counts.fetch.size(); ++i) {
      counts.fetch[i] += static_cast<int64_t>(added.values[i]);
    }
    // To a simulator a page that stays reclaimable is a page on the host.
    counts.fetch[kReclaimableCount] = 0;
  }

  void ExpectSame(int head, const AgedSlots& simulated) const {
    ASSERT_EQ(std::ssize(simulated.tags()), num_slots());
    for (int slot = 0; slot < num_slots(); ++slot) {
      const auto at = static_cast<size_t>(slot);
      ASSERT_EQ(simulated.tags()[at], slots_.Tag(0, head, slot))
          << "head " << head << " slot " << slot;
      ASSERT_EQ(simulated.ages()[at], slots_.Age(0, head, slot))
          << "head " << head << " slot " << slot;
    }
  }

 private:
  PickLists Upload(TestDevice& device, const RowLists& rows) const {
    const int64_t num_heads = paged_.shape().num_q_heads();
    int64_t capacity = 1;
    for (const auto& lists : rows) {
      for (const auto& list : lists) {
        capacity = std::max(capacity, std::ssize(list));
      }
    }
    TestArray picks(Dtype::kUInt32, {std::ssize(rows), num_heads, capacity, 2});
    TestArray num_picks(Dtype::kInt32, {std::ssize(rows), num_heads});
    std::vector<int32_t> num_lists;
    size_t at = 0;
    for (const auto& lists : rows) {
      num_lists.push_back(std::max(1, static_cast<int>(lists.size())));
      num_picks.values[at] = kEveryPage;
      for (size_t list = 0; list < lists.size(); ++list) {
        num_picks.values[at + list] = static_cast<double>(lists[list].size());
        size_t next = (at + list) * static_cast<size_t>(capacity) * 2;
        for (const Pick& pick : lists[list]) {
          picks.values[next++] = pick.page;
          picks.values[next++] = pick.tokens;
        }
      }
      at += static_cast<size_t>(num_heads);
    }
    PickLists lists;
    lists.picks = device.Upload(picks);
    lists.num_picks = device.Upload(num_picks);
    lists.num_lists = device.Upload(Int32Array(num_lists));
    return lists;
  }

  PagedCase paged_;
  SlotCase slots_;
};

// Tokens of the trace's levels [first, last], page by page.
std::vector<Pick> ListOf(const TraceList& list, size_t first, size_t last) {
  std::map<uint32_t, uint32_t> tokens;
  for (size_t level = first; level <= last; ++level) {
    for (const Pick& pick : list.bands[level]) {
      tokens[pick.page] |= pick.tokens;
    }
  }
  std::vector<Pick> picks;
  for (const auto& [page, of_page] : tokens) picks.push_back({page, of_page});
  return picks;
}

// A trace's step as ops have it, in its one layer.
BackendSlots::Step StepOf(const TraceHeader& header, const TraceStep& step,
                          int hint_level) {
  BackendSlots::Step ops;
  const auto budget = static_cast<size_t>(header.budget_level());
  for (const TraceRowLists& lists : step.layers[0]) {
    auto& picks = ops.picks.emplace_back();
    auto& hints = ops.hints.emplace_back();
    for (const TraceList& list : lists) {
      if (list.reads_all) {
        picks.clear();
        hints.assign(1, {});
        break;
      }
      picks.push_back(ListOf(list, 0, budget));
      hints.push_back(
          ListOf(list, budget + 1, static_cast<size_t>(hint_level)));
    }
  }
  return ops;
}

// A row reads all in every list or in none, as backends have it.
void AgreeOnReadingAll(TraceRequest& request) {
  for (TraceStep& step : request.steps) {
    for (TraceRowLists& lists : step.layers[0]) {
      for (size_t i = 0; i < lists.size(); ++i) {
        if (!lists[i].reads_all) continue;
        lists = {{.reads_all = true, .bands = {}}};
        break;
      }
    }
  }
}

class AgedSlotsTest : public testing::Test {
 protected:
  // A random trace's steps, from a page's first position as far as that page
  // goes: a page that closes stays whole in a SlotCase.
  void Compare(uint64_t seed, int least_hint_age) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomSource source(seed);
    std::mt19937_64 random(seed);
    TraceHeader header = RandomTraceHeader(random);
    header.chooses = {true};
    TraceRequest request =
        RandomTraceRequest(header, {.max_steps = 100}, random);
    AgreeOnReadingAll(request);
    int64_t& first = request.first_position;
    first = std::max<int64_t>(first / kPageTokens, 2) * kPageTokens;
    while (request.num_rows() > kPageTokens) request.steps.pop_back();
    CutAt(request);
    KvShape shape;
    shape.num_kv_heads = header.num_kv_heads;
    shape.group_heads = header.num_q_heads / header.num_kv_heads;
    shape.k_dim = shape.v_dim = 8;
    const int slot_tokens = source.Among({8, 16, 32});
    const int hint_level = static_cast<int>(header.levels.size()) - 1;
    BackendSlots backend(shape,
                         {static_cast<int32_t>(first),
                          static_cast<int32_t>(request.num_rows()), 0},
                         slot_tokens, source);
    const auto pieces =
        PiecesOf(header, request,
                 {.slot_tokens = slot_tokens, .hint_level = hint_level});
    std::vector<AgedSlots> simulated;
    for (int head = 0; head < header.num_kv_heads; ++head) {
      simulated.emplace_back(least_hint_age).Resize(backend.num_slots());
    }
    SlotCounts counts, expected;
    int64_t position = first;
    for (size_t i = 0; i < request.steps.size() && !HasFatalFailure(); ++i) {
      SCOPED_TRACE(testing::Message() << "step " << i);
      BackendSlots::Step step = StepOf(header, request.steps[i], hint_level);
      step.first_position = static_cast<int>(position);
      step.least_hint_age = least_hint_age;
      backend.Fetch(step, expected);
      for (int head = 0; head < header.num_kv_heads; ++head) {
        const auto at = static_cast<size_t>(head);
        simulated[at].Fetch(pieces[at][i], counts);
        backend.ExpectSame(head, simulated[at]);
      }
      ASSERT_EQ(counts.fetch, expected.fetch);
      position += request.steps[i].num_rows;
    }
  }

 private:
  // Masks of rows that moved to earlier positions.
  static void CutAt(TraceRequest& request) {
    int64_t position = request.first_position;
    for (TraceStep& step : request.steps) {
      for (TraceRowLists& lists : step.layers[0]) {
        for (TraceList& list : lists) {
          for (auto& band : list.bands) CutBand(band, position);
        }
        ++position;
      }
    }
  }
  static void CutBand(std::vector<Pick>& band, int64_t position) {
    std::erase_if(band, [&](const Pick& pick) {
      return pick.page * int64_t{kPageTokens} > position;
    });
    if (band.empty() || band.back().page != position / kPageTokens) return;
    band.back().tokens &=
        ~uint32_t{0} >> (kPageTokens - 1 - position % kPageTokens);
    if (band.back().tokens == 0) band.pop_back();
  }
};

TEST_F(AgedSlotsTest, AreTheBackendsSlots) {
  for (uint64_t seed = 0; seed < 24 && !HasFailure(); ++seed) {
    Compare(seed, AgedSlots::kNoHints);
  }
}

TEST_F(AgedSlotsTest, AreTheBackendsSlotsWithHints) {
  for (uint64_t seed = 100; seed < 164 && !HasFailure(); ++seed) {
    Compare(seed, static_cast<int>(seed % 8));
  }
}

TEST_F(AgedSlotsTest, AreTheBackendsSlotsWithHintsThatAreOnlyHeld) {
  for (uint64_t seed = 200; seed < 212 && !HasFailure(); ++seed) {
    Compare(seed, kEmptyAge);
  }
}

TEST_F(AgedSlotsTest, AreTheBackendsSlotsWithHintsThatAreOnlyKept) {
  for (uint64_t seed = 300; seed < 312 && !HasFailure(); ++seed) {
    Compare(seed, kNoHintFetch);
  }
}

// As long as ages tell uses apart, and longer: 450 rows, each of few pieces.
TEST_F(AgedSlotsTest, GrowOldAsTheBackendsDo) {
  for (uint64_t seed = 0; seed < 2 && !HasFailure(); ++seed) {
    RandomSource random(seed);
    constexpr int kFirst = 40 * kPageTokens, kRows = 450;
    KvShape shape;
    shape.k_dim = shape.v_dim = 8;
    BackendSlots backend(shape, {kFirst, kRows, 0}, kPageTokens, random);
    AgedSlots simulated(AgedSlots::kNoHints);
    simulated.Resize(backend.num_slots());
    SlotCounts counts, expected;
    for (int row = 0; row < kRows && !HasFailure(); ++row) {
      const int position = kFirst + row;
      std::vector<Pick> list;
      StepPieces step;
      step.first_position = position;
      step.end_position = position + 1;
      for (uint32_t page = 0; page < 40; ++page) {
        if (!random.Chance(page < 8 ? 0.2 : 0.004)) continue;
        list.push_back({page, ~uint32_t{0}});
        step.picks.push_back({page, false});
      }
      backend.Fetch(
          {.first_position = position, .picks = {{list}}, .hints = {}},
          expected);
      simulated.Fetch(step, counts);
      backend.ExpectSame(0, simulated);
      ASSERT_EQ(counts.fetch, expected.fetch);
    }
  }
}

}  // namespace
}  // namespace winnow
