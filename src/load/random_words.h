// Text that means nothing, of a wanted length.
#ifndef WINNOW_LOAD_RANDOM_WORDS_H_
#define WINNOW_LOAD_RANDOM_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace winnow {

// `count` common English words with a space between two, drawn independently:
// how many tokens they are is therefore proportional to `count`, for any
// tokenizer, but for a spread of its root. The same for the same seed.
std::string RandomWords(size_t count, uint64_t seed);

}  // namespace winnow

#endif  // WINNOW_LOAD_RANDOM_WORDS_H_
