// RandomWords: text without meaning, of a given length.
#ifndef WINNOW_LOAD_RANDOM_WORDS_H_
#define WINNOW_LOAD_RANDOM_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace winnow {

// `count` common English words with spaces between, drawn independently. For
// any tokenizer the number of tokens is proportional to `count`, with a spread
// of its root. Equal seeds give equal texts.
std::string RandomWords(size_t count, uint64_t seed);

}  // namespace winnow

#endif  // WINNOW_LOAD_RANDOM_WORDS_H_
