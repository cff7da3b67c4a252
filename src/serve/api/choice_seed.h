// The seeds of a request's answers.
#ifndef WINNOW_SERVE_API_CHOICE_SEED_H_
#define WINNOW_SERVE_API_CHOICE_SEED_H_

#include <cstdint>

namespace winnow {

// Mixes two numbers into one that reveals neither. It is number `number` of
// SplitMix64 with `seed` (Steele, Lea and Flood, 2014, figure 17).
uint64_t MixSeed(uint64_t seed, uint64_t number);

// The seed of choice `choice` of a request with `seed`. The first choice has
// the request's seed, so it does not depend on `n`. The others are mixed, so
// that requests with close seeds share no draws.
uint64_t ChoiceSeed(uint64_t seed, uint64_t choice);

}  // namespace winnow

#endif  // WINNOW_SERVE_API_CHOICE_SEED_H_
