#include "text/detokenizer.h"

#include "base/check.h"
#include "text/rust_text.h"

namespace winnow {
namespace {

Result<std::string> TextOrError(int32_t code, WinnowOwnedText text,
                                WinnowOwnedText message,
                                const std::string& name) {
  if (code == kWinnowTextOk) return internal::TakeText(text);
  const Error error = internal::TakeError(code, message);
  return MakeError(error.code, "{}: {}", name, error.message);
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
