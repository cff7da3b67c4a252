#include "serve/answer/answer_style.h"

namespace winnow {

namespace {

std::string TextOf(const std::vector<ShownPart>& parts, bool of_thoughts) {
  std::string text;
  for (const ShownPart& part : parts) {
    if (part.is_thought == of_thoughts) text += part.text;
  }
  return text;
}

}  // namespace

void AddText(const std::string& text, bool is_thought,
             std::vector<ShownPart>& parts) {
  const bool continues = !parts.empty() && !parts.back().call &&
                         parts.back().is_thought == is_thought;
  if (!continues) parts.push_back({.is_thought = is_thought});
  parts.back().text += text;
}

std::string ShownChoice::Text() const {
  return TextOf(parts, /*of_thoughts=*/false);
}

std::string ShownChoice::Thoughts() const {
  return TextOf(parts, /*of_thoughts=*/true);
}

std::string CallId(std::string_view answer_id, int choice, int call) {
  constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr int kNumDigits = 9;
  // FNV-1a, and the finish of SplitMix64 so that its low digits mix too.
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : fmt::format("{}/{}/{}", answer_id, choice, call)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  }
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9u;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBu;
  hash ^= hash >> 31;
  std::string id;
  for (int i = 0; i < kNumDigits; ++i) {
    id += kDigits[hash % kDigits.size()];
    hash /= kDigits.size();
  }
  return id;
}

}  // namespace winnow
