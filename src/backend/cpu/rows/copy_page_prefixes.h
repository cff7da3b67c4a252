// CopyPagePrefixes on the CPU.
#ifndef WINNOW_BACKEND_CPU_ROWS_COPY_PAGE_PREFIXES_H_
#define WINNOW_BACKEND_CPU_ROWS_COPY_PAGE_PREFIXES_H_

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace winnow {

void MovePages(const CopyPagePrefixesArgs& args, ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ROWS_COPY_PAGE_PREFIXES_H_
