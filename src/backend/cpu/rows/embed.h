// Embed on the CPU.
#ifndef WINNOW_BACKEND_CPU_ROWS_EMBED_H_
#define WINNOW_BACKEND_CPU_ROWS_EMBED_H_

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace winnow {

void EmbedRows(const EmbedArgs& args, ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ROWS_EMBED_H_
