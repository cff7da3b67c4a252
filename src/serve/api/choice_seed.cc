#include "serve/api/choice_seed.h"

namespace winnow {

uint64_t MixSeed(uint64_t seed, uint64_t number) {
  uint64_t mixed = seed + 0x9E3779B97F4A7C15u * (number + 1);
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

uint64_t ChoiceSeed(uint64_t seed, uint64_t choice) {
  return choice == 0 ? seed : MixSeed(seed, choice - 1);
}

}  // namespace winnow
