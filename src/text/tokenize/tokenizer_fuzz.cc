// Any bytes as tokenizer.json: refused, or a tokenizer whose text survives
// encoding, decoding and streaming alike. Run by libFuzzer, and on the corpus
// by tokenizer_fuzz_test.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/tokenize/detokenizer.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {
namespace {

constexpr const char* kTexts[] = {"", " Hello,  world! <s> don't 123\n",
                                  "\u00e9\u4f60\U0001f600\u0301 \t"};

void CheckStreaming(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                    bool skip_special_tokens) {
  const auto whole = tokenizer.Decode(ids, skip_special_tokens);
  if (!whole.ok()) return;
  Detokenizer detokenizer(tokenizer, skip_special_tokens);
  std::string streamed;
  for (const int32_t id : ids) {
    const auto ahead = detokenizer.Peek(id);
    const auto piece = detokenizer.Push(id);
    CHECK(piece.ok(), "{}", piece.error().message);
    CHECK(ahead.ok() && ahead->text == *piece, "\"{}\"", *piece);
    streamed += *piece;
  }
  const auto rest = detokenizer.Finish();
  CHECK(rest.ok(), "{}", rest.error().message);
  streamed += *rest;
  // Of byte tokens that are no UTF-8 a stream tells more.
  const bool is_broken = whole->find("\ufffd") != std::string::npos;
  CHECK(is_broken || streamed == *whole, "\"{}\" != \"{}\"", streamed, *whole);
}

void CheckTokenizer(const Tokenizer& tokenizer) {
  for (const char* text : kTexts) {
    for (const bool special : {false, true}) {
      const auto ids = tokenizer.Encode(text, special);
      const size_t most =
          static_cast<size_t>(tokenizer.max_token_bytes().value_or(SIZE_MAX));
      CHECK(!ids.ok() || std::string_view(text).size() / most <= ids->size(),
            "\"{}\" has {} tokens of {} bytes at most", text, ids->size(),
            most);
      if (ids.ok()) CheckStreaming(tokenizer, *ids, special);
    }
  }
  std::vector<int32_t> all;
  for (int32_t id = 0; id < std::min(tokenizer.vocab_size(), 300); ++id) {
    all.push_back(id);
    const auto token = tokenizer.TokenText(id);
    if (token) (void)tokenizer.IdOf(*token);
  }
  CheckStreaming(tokenizer, all, tokenizer.IsSpecial(0));
}

}  // namespace
}  // namespace winnow

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = winnow::Tokenizer::FromJson("fuzz", json, {});
  if (tokenizer.ok()) {
    winnow::CheckTokenizer(*tokenizer);
  } else {
    CHECK(tokenizer.error().message.find('\n') == std::string::npos, "{}",
          tokenizer.error().message);
  }
  return 0;
}
