#include <cstdint>

#include "model/weights/loader_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  winnow::FuzzConfig(std::as_bytes(std::span(data, size)));
  return 0;
}
