#include "text/tokenize/detokenizer.h"

#include "base/check.h"
#include "text/rust_text.h"

namespace winnow {
namespace {

Error ErrorIn(const std::string& name, int32_t code, WinnowOwnedText message) {
  const Error error = internal::TakeError(code, message);
  return MakeError(error.code, "{}: {}", name, error.message);
}

Result<std::string> TextOrError(int32_t code, WinnowOwnedText text,
                                WinnowOwnedText message,
                                const std::string& name) {
  if (code == kWinnowTextOk) return internal::TakeText(text);
  return ErrorIn(name, code, message);
}

}  // namespace

void Detokenizer::Free::operator()(WinnowDetokenizer* detokenizer) const {
  winnow_detokenizer_free(detokenizer);
}

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : handle_(winnow_detokenizer_create(tokenizer.handle_.get(),
                                        skip_special_tokens)),
      name_(tokenizer.name_) {
  CHECK(handle_ != nullptr);
}

Detokenizer Detokenizer::Clone() const {
  Handle clone(winnow_detokenizer_clone(handle_.get()));
  CHECK(clone != nullptr);
  Detokenizer copy(std::move(clone), name_);
  copy.finished_ = finished_;
  return copy;
}

Status Detokenizer::Follow(std::span<const int32_t> ids) {
  CHECK(!finished_);
  WinnowOwnedText message{};
  const int32_t code = winnow_detokenizer_follow(handle_.get(), ids.data(),
                                                 ids.size(), &message);
  if (code == kWinnowTextOk) return Ok{};
  return ErrorIn(name_, code, message);
}

bool Detokenizer::begins() const {
  return winnow_detokenizer_begins(handle_.get());
}

bool Detokenizer::puts_spaces() const {
  return winnow_detokenizer_puts_spaces(handle_.get());
}

Result<TokenAddition> Detokenizer::Peek(int32_t id) const {
  CHECK(!finished_);
  WinnowTokenAddition addition{};
  WinnowOwnedText message{};
  const int32_t code =
      winnow_detokenizer_peek(handle_.get(), id, &addition, &message);
  if (code != kWinnowTextOk) return ErrorIn(name_, code, message);
  return TokenAddition{.text = internal::TakeText(addition.text),
                       .bytes = internal::TakeText(addition.bytes),
                       .is_skipped = addition.is_skipped,
                       .is_open = addition.is_open};
}

Result<std::string> Detokenizer::Push(int32_t id) {
  CHECK(!finished_);
  WinnowOwnedText text{};
  WinnowOwnedText message{};
  const int32_t code =
      winnow_detokenizer_push(handle_.get(), id, &text, &message);
  return TextOrError(code, text, message, name_);
}

Result<std::string> Detokenizer::Finish() {
  CHECK(!finished_);
  finished_ = true;
  WinnowOwnedText text{};
  WinnowOwnedText message{};
  const int32_t code =
      winnow_detokenizer_finish(handle_.get(), &text, &message);
  return TextOrError(code, text, message, name_);
}

}  // namespace winnow
