// What the loader's fuzzers do with any bytes. Run by libFuzzer, and on the
// committed corpus by loader_fuzz_test.
#ifndef WINNOW_MODEL_WEIGHTS_LOADER_FUZZ_H_
#define WINNOW_MODEL_WEIGHTS_LOADER_FUZZ_H_

#include <cstddef>
#include <span>

namespace winnow {

// As a safetensors file: refused in one line, or tensors that cover its data
// exactly, every byte of which is read.
void FuzzSafetensors(std::span<const std::byte> bytes);

// As config.json: refused in one line, or an architecture within its limits
// whose rope is finite at every length that it allows.
void FuzzConfig(std::span<const std::byte> bytes);

}  // namespace winnow

#endif  // WINNOW_MODEL_WEIGHTS_LOADER_FUZZ_H_
