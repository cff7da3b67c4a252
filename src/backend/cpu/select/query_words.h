// PackQuery: a query as the kernels take it.
#ifndef WINNOW_BACKEND_CPU_SELECT_QUERY_WORDS_H_
#define WINNOW_BACKEND_CPU_SELECT_QUERY_WORDS_H_

#include <cstdint>

#include "backend/cpu/isa/vector_kernels.h"
#include "tensor/dtype.h"

namespace winnow {

// What a query of `width` numbers, a multiple of 16, takes.
int64_t QueryFloats(QueryWords words, int64_t width);

// Packs q [width]: what comes as number i of it goes to to[i * stride].
// REQUIRES: pairs are made of bfloat16.
template <typename T>
void PackQuery(QueryWords words, const T* q, int64_t width, float* to,
               int64_t stride);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_QUERY_WORDS_H_
