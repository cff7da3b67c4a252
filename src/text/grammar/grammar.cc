#include "text/grammar/grammar.h"

#include "base/check.h"
#include "text/rust_text.h"

namespace winnow {
namespace {

using internal::SliceOf;
using internal::TakeError;

int32_t NumberOf(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonSchema:
      return kWinnowGrammarJsonSchema;
    case GrammarKind::kRegex:
      return kWinnowGrammarRegex;
    case GrammarKind::kChoice:
      return kWinnowGrammarChoice;
    case GrammarKind::kLark:
      return kWinnowGrammarLark;
    case GrammarKind::kToolCalls:
      return kWinnowGrammarCalls;
  }
  CHECK(false, "kind={}", static_cast<int>(kind));
}

// What a state of a matcher takes; what compiling takes beside its states; and
// what a token of a vocabulary does in the trees that are made of it.
constexpr size_t kStateBytes = size_t{2} << 10;
constexpr size_t kCompilingBytes = size_t{64} << 20;
constexpr size_t kVocabularyBytes = size_t{1} << 10;

Status StatusOf(int32_t code, WinnowOwnedText message) {
  if (code == kWinnowTextOk) return Ok{};
  return TakeError(code, message);
}

}  // namespace

void GrammarMatcher::Free::operator()(WinnowMatcher* matcher) const {
  winnow_matcher_free(matcher);
}

GrammarMatcher GrammarMatcher::Clone() const {
  Handle clone(winnow_matcher_clone(handle_.get()));
  CHECK(clone != nullptr);
  return GrammarMatcher(std::move(clone), max_bytes_);
}

Status GrammarMatcher::Mask(std::span<uint32_t> words) {
  ASSIGN_OR_RETURN(const auto room,
                   internal::RoomForCall("a grammar's states", max_bytes_));
  WinnowOwnedText message{};
  const int32_t code =
      winnow_matcher_mask(handle_.get(), words.data(), words.size(), &message);
  return StatusOf(code, message);
}

Status GrammarMatcher::Accept(int32_t token_id) {
  WinnowOwnedText message{};
  const int32_t code = winnow_matcher_accept(handle_.get(), token_id, &message);
  return StatusOf(code, message);
}

bool GrammarMatcher::complete() const {
  return winnow_matcher_is_complete(handle_.get());
}

void GrammarVocabulary::Free::operator()(WinnowVocabulary* vocabulary) const {
  winnow_vocabulary_free(vocabulary);
}

Result<GrammarVocabulary> GrammarVocabulary::Create(
    const Tokenizer& tokenizer, int vocab_size,
    std::span<const int32_t> end_ids, const GrammarLimits& limits) {
  CHECK(vocab_size > 0, "vocab_size={}", vocab_size);
  ASSIGN_OR_RETURN(const auto room,
                   internal::RoomForCall(
                       "a vocabulary's trees",
                       internal::kCallBytes +
                           kVocabularyBytes * static_cast<size_t>(vocab_size)));
  WinnowVocabulary* vocabulary = nullptr;
  WinnowOwnedText message{};
  const int32_t code = winnow_vocabulary_create(
      tokenizer.handle_.get(), static_cast<size_t>(vocab_size), end_ids.data(),
      end_ids.size(),
      {.max_bytes = limits.max_bytes,
       .max_compile_work = limits.max_compile_work,
       .max_mask_work = limits.max_mask_work,
       .max_states = limits.max_states,
       .max_mask_us = limits.max_mask_us},
      &vocabulary, &message);
  if (code != kWinnowTextOk) return TakeError(code, message);
  return GrammarVocabulary(Handle(vocabulary), vocab_size, limits.max_states);
}

Result<GrammarMatcher> GrammarVocabulary::Compile(const Grammar& grammar,
                                                  AnswerPlace place) const {
  const size_t max_bytes = internal::kCallBytes + kStateBytes * max_states_;
  ASSIGN_OR_RETURN(auto room, internal::RoomForCall(
                                  "a grammar", kCompilingBytes + max_bytes));
  WinnowMatcher* created = nullptr;
  WinnowOwnedText message{};
  const WinnowSlice white_space =
      grammar.white_space ? SliceOf(*grammar.white_space) : WinnowSlice{};
  const int32_t code = winnow_matcher_create(
      handle_.get(), NumberOf(grammar.kind), SliceOf(grammar.source),
      white_space, place == AnswerPlace::kBeginsText, &created, &message);
  if (code != kWinnowTextOk) return TakeError(code, message);
  GrammarMatcher matcher(GrammarMatcher::Handle(created), max_bytes);
  room.reset();
  // What cannot begin is told now, and the first mask costs most.
  std::vector<uint32_t> words((static_cast<size_t>(vocab_size_) + 31) / 32);
  RETURN_IF_ERROR(matcher.Mask(words));
  return matcher;
}

}  // namespace winnow
