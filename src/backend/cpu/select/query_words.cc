#include "backend/cpu/select/query_words.h"

#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace winnow {
namespace {

constexpr int64_t kWordNumbers = 2;

void PackPairs(const BFloat16* q, int64_t width, float* to, int64_t stride) {
  if (stride == 1) {
    std::memcpy(to, q, static_cast<size_t>(width) * sizeof(*q));
    return;
  }
  for (int64_t i = 0; i < width / kWordNumbers; ++i) {
    std::memcpy(to + i * stride, q + kWordNumbers * i, sizeof(float));
  }
}

}  // namespace

int64_t QueryFloats(QueryWords words, int64_t width) {
  return words == QueryWords::kBFloat16 ? width / kWordNumbers : width;
}

template <typename T>
void PackQuery(QueryWords words, const T* q, int64_t width, float* to,
               int64_t stride) {
  if (words == QueryWords::kBFloat16) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      return PackPairs(q, width, to, stride);
    }
    CHECK(false, "pairs are of bfloat16, and q has {} bytes", sizeof(T));
  }
  const bool apart = words == QueryWords::kHalvesApart;
  for (int64_t i = 0; i < width; ++i) {
    const int64_t at =
        apart ? i % kWordNumbers * (width / kWordNumbers) + i / kWordNumbers
              : i;
    to[at * stride] = static_cast<float>(q[i]);
  }
}

template void PackQuery(QueryWords, const float*, int64_t, float*, int64_t);
template void PackQuery(QueryWords, const BFloat16*, int64_t, float*, int64_t);
template void PackQuery(QueryWords, const Float16*, int64_t, float*, int64_t);

}  // namespace winnow
