// A Buffer that has room for the greatest need so far.
#ifndef WINNOW_BACKEND_CPU_GROWN_BUFFER_H_
#define WINNOW_BACKEND_CPU_GROWN_BUFFER_H_

#include <new>

#include "base/memory_reserve.h"
#include "tensor/buffer.h"

namespace winnow {

// Makes `buffer` at least `num_bytes` large; its content is lost where it
// grows. Plain host memory, aligned to 64 bytes, zeroed when taken. Throws
// std::bad_alloc, as a container does, where the system has not that much.
inline void Grow(size_t num_bytes, Buffer& buffer) {
  if (buffer.data() != nullptr && num_bytes <= buffer.num_bytes()) return;
  buffer = Buffer();
  Result<Buffer> grown = Buffer::AllocateHost(num_bytes, "workspace");
  while (!grown.ok() && GiveReserveAway()) {
    grown = Buffer::AllocateHost(num_bytes, "workspace");
  }
  if (!grown.ok()) throw std::bad_alloc();
  buffer = std::move(grown).value();
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_GROWN_BUFFER_H_
