// SequenceList: the sequences that an engine has taken in and not yet ended.
#ifndef WINNOW_ENGINE_REQUEST_SEQUENCE_LIST_H_
#define WINNOW_ENGINE_REQUEST_SEQUENCE_LIST_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/request/sequence.h"

namespace winnow {

// Owns the sequences, and gives out their ids. Used by the engine's thread
// alone. At all times the list is in order of arrival, and so of ids.
class SequenceList {
 public:
  // An id that no sequence had before.
  SequenceId TakeId() { return SequenceId(next_id_++); }
  // REQUIRES: its id was taken after those of all sequences in the list.
  Sequence& Add(std::unique_ptr<Sequence> sequence);
  // Does nothing where the list has no such sequence.
  void Remove(SequenceId id);

  // Null where there is none, or it has ended.
  const Sequence* Find(SequenceId id) const;
  bool Knows(SequenceId id) const { return Find(id) != nullptr; }
  bool KnowsAnyOf(const StepPlan& plan) const;
  // Whether a sequence waits for its next step to draw a token.
  bool AnyWaitsForOne() const;
  // REQUIRES: Knows(id).
  const Sequence& Get(SequenceId id) const;
  Sequence& Get(SequenceId id);
  // The requests that share a prefix, in order of arrival.
  std::vector<SequenceId> ForksOf(SequenceId prefix) const;

  bool empty() const { return sequences_.empty(); }
  size_t size() const { return sequences_.size(); }
  std::span<const std::unique_ptr<Sequence>> items() const {
    return sequences_;
  }
  auto begin() const { return sequences_.begin(); }
  auto end() const { return sequences_.end(); }

 private:
  std::vector<std::unique_ptr<Sequence>> sequences_;
  uint64_t next_id_ = 1;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_REQUEST_SEQUENCE_LIST_H_
