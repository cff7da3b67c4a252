#include "engine/request/sequence_list.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace winnow {

Sequence& SequenceList::Add(std::unique_ptr<Sequence> sequence) {
  CHECK(empty() || sequences_.back()->id() < sequence->id(), "sequence={}",
        sequence->id().value());
  return *sequences_.emplace_back(std::move(sequence));
}

void SequenceList::Remove(SequenceId id) {
  std::erase_if(sequences_,
                [id](const auto& sequence) { return sequence->id() == id; });
}

const Sequence* SequenceList::Find(SequenceId id) const {
  const auto found = std::ranges::lower_bound(
      sequences_, id, {}, [](const auto& sequence) { return sequence->id(); });
  const bool known = found != sequences_.end() && (*found)->id() == id;
  return known ? found->get() : nullptr;
}

bool SequenceList::KnowsAnyOf(const StepPlan& plan) const {
  return std::ranges::any_of(plan.items, [this](const StepItem& item) {
    return Knows(item.sequence);
  });
}

bool SequenceList::AnyWaitsForOne() const {
  return std::ranges::any_of(sequences_, [](const auto& sequence) {
    return sequence->waits_for_one();
  });
}

const Sequence& SequenceList::Get(SequenceId id) const {
  const Sequence* found = Find(id);
  CHECK(found != nullptr, "sequence={}", id.value());
  return *found;
}

Sequence& SequenceList::Get(SequenceId id) {
  return const_cast<Sequence&>(std::as_const(*this).Get(id));
}

std::vector<SequenceId> SequenceList::ForksOf(SequenceId prefix) const {
  std::vector<SequenceId> forks;
  for (const auto& sequence : sequences_) {
    if (sequence->request().prefix == prefix) forks.push_back(sequence->id());
  }
  return forks;
}

}  // namespace winnow
