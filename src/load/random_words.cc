#include "load/random_words.h"

#include <array>
#include <random>
#include <string_view>

namespace winnow {
namespace {

constexpr std::array<std::string_view, 64> kWords = {
    "time",  "year",  "people", "way",   "day",    "man",   "thing", "child",
    "world", "life",  "hand",   "part",  "place",  "week",  "case",  "point",
    "water", "room",  "mother", "area",  "money",  "story", "fact",  "month",
    "right", "study", "book",   "eye",   "job",    "word",  "side",  "kind",
    "head",  "house", "friend", "hour",  "game",   "line",  "end",   "city",
    "name",  "team",  "minute", "idea",  "body",   "back",  "face",  "level",
    "door",  "road",  "art",    "war",   "party",  "law",   "car",   "night",
    "food",  "light", "music",  "paper", "ground", "force", "foot",  "window"};

}  // namespace

std::string RandomWords(size_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += kWords[engine() % kWords.size()];
  }
  return text;
}

}  // namespace winnow
