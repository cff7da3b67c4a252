// Which random numbers the answers to a request are drawn from.
#ifndef WINNOW_SERVE_API_CHOICE_SEED_H_
#define WINNOW_SERVE_API_CHOICE_SEED_H_

#include <cstdint>

namespace winnow {

// Two numbers to one that neither gives away: SplitMix64 (Steele, Lea and
// Flood, 2014, figure 17), number `number` of the generator with `seed`.
uint64_t MixSeed(uint64_t seed, uint64_t number);

// The seed of choice `choice` of a request with `seed`. The first has the
// request's own, so that it is the same whatever `n` is. The others' are mixed:
// requests whose seeds are near each other share no draws.
uint64_t ChoiceSeed(uint64_t seed, uint64_t choice);

}  // namespace winnow

#endif  // WINNOW_SERVE_API_CHOICE_SEED_H_
