// What must hold of an engine between two steps, for tests.
#ifndef WINNOW_ENGINE_ENGINE_INVARIANTS_H_
#define WINNOW_ENGINE_ENGINE_INVARIANTS_H_

#include <fmt/format.h>

#include <string>
#include <vector>

#include "cache/disk_invariants.h"
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

}  // namespace winnow

#endif  // WINNOW_ENGINE_ENGINE_INVARIANTS_H_
