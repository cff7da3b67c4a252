#include <cstdint>

#include "serve/api/entry_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  winnow::FuzzRequest(std::as_bytes(std::span(data, size)));
  return 0;
}
