// What must hold of an engine between two steps, for tests.
#ifndef WINNOW_ENGINE_TESTING_ENGINE_INVARIANTS_H_
#define WINNOW_ENGINE_TESTING_ENGINE_INVARIANTS_H_

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "cache/disk/disk_invariants.h"
#include "engine/engine.h"
#include "kv/invariants.h"
#include "kv/prefix_invariants.h"
#include "kv/slot_invariants.h"

namespace winnow {

// A line for each that is broken: of KV, the prefix index, the selectors'
// segments, the slots and the disk's index, as far as the engine has them; and
// that each sequence may have a slot of the queries that fix its choice.
inline std::vector<std::string> BrokenInvariants(const Engine& engine) {
  const KvSnapshot kv = engine.kv().Snapshot();
  std::vector<std::string> broken = BrokenInvariants(kv);
  const auto add = [&](const std::vector<std::string>& more) {
    broken.insert(broken.end(), more.begin(), more.end());
  };
  add(BrokenInvariants(engine.kv().prefixes().Snapshot()));
  for (int i = 0; i < engine.selectors().size(); ++i) {
    for (const KvCache* segments :
         {engine.selectors().segments(i), engine.selectors().fixed_queries(i),
          engine.selectors().fixed_words(i)}) {
      if (segments != nullptr) add(BrokenInvariants(segments->Snapshot()));
    }
    const KvCache* queries = engine.selectors().fixed_queries(i);
    if (queries != nullptr && queries->num_sequences() > queries->num_pages()) {
      broken.push_back(fmt::format("selector {} has {} sequences, {} slots", i,
                                   queries->num_sequences(),
                                   queries->num_pages()));
    }
  }
  if (engine.slots() != nullptr) {
    const SlotSnapshot slots = engine.slots()->ledger().Snapshot();
    add(BrokenInvariants(slots));
    add(BrokenInvariants(slots, kv));
  }
  if (engine.disk() != nullptr) {
    add(BrokenInvariants(engine.disk()->store().index().Snapshot()));
  }
  return broken;
}

// A line for each thing that only a request that waits or runs may hold, of an
// engine that has none: pages, the selectors' segments, layer blocks of KV
// blocks that were split, and segments and chunks of slots. Cached ones are
// free.
inline std::vector<std::string> HeldByNobody(const Engine& engine) {
  std::vector<std::string> held;
  const auto expect_all = [&](std::string_view what, int64_t free,
                              int64_t all) {
    if (free == all) return;
    held.push_back(fmt::format("{} of {} {} are free", free, all, what));
  };
  const KvSnapshot kv = engine.kv().Snapshot();
  expect_all("pages", engine.kv().num_free_pages(), engine.kv().num_pages());
  expect_all("pages lent", 0, std::ssize(kv.lent));
  expect_all("tables", 0, std::ssize(kv.tables));
  for (int i = 0; i < engine.selectors().size(); ++i) {
    for (const KvCache* segments :
         {engine.selectors().segments(i), engine.selectors().fixed_queries(i),
          engine.selectors().fixed_words(i)}) {
      if (segments == nullptr) continue;
      expect_all(fmt::format("segments of selector {}", i),
                 segments->num_free_pages(), segments->num_pages());
      expect_all(fmt::format("sequences of selector {}", i), 0,
                 segments->num_sequences());
    }
  }
  if (engine.slots() == nullptr) return held;
  const SlotSnapshot slots = engine.slots()->ledger().Snapshot();
  expect_all("owners of slots", 0, std::ssize(slots.owners));
  expect_all("KV blocks of slots", 0, std::ssize(slots.split));
  expect_all("segments of slots", slots.num_free_segments, slots.num_segments);
  expect_all("chunks of slots", slots.num_free_chunks, slots.num_chunks);
  return held;
}

}  // namespace winnow

#endif  // WINNOW_ENGINE_TESTING_ENGINE_INVARIANTS_H_
