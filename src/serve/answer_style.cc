#include "serve/answer_style.h"

namespace winnow {

std::string ShownChoice::Text() const {
  std::string text;
  for (const ShownPart& part : parts) text += part.text;
  return text;
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
