// MemoryReserve: address space that is kept for the moment at which memory
// ends. Only the request that asks for too much then fails.
//
// If `new` finds no memory, a thread that serves all requests returns part of
// the reserve to the system and tries again. A thread that works for one
// request gets std::bad_alloc, which ends that request. The Rust library can do
// neither. Its memory is reserved before a call (MemoryReservation), and
// released if the library finds none.
//
// The reserve is address space that is never touched. It costs no memory, and
// works if the system counts reservations (limits of a process, strict
// overcommit). It does not help if the system has overcommitted memory; the
// bounds of requests do.
//
// The handler of `new` is global to the process, and so is this.
#ifndef WINNOW_BASE_MEMORY_RESERVE_H_
#define WINNOW_BASE_MEMORY_RESERVE_H_

#include <cstddef>
#include <memory>

#include "base/result.h"

namespace winnow {

// The reserve of a server. Shared threads take far less for the requests that
// were admitted. It is returned to the system in parts.
inline constexpr size_t kMemoryReserveBytes = size_t{64} << 20;
inline constexpr size_t kMemoryReservePartBytes = size_t{4} << 20;

// Takes the reserve, which `new` then uses. Fails if the system has too little.
Status KeepMemoryReserve();
// Takes returned parts back. False if less than half is there afterwards; begin
// no new work then. True if there is no reserve. Any thread.
bool RetakeMemoryReserve();
// Returns a part of the reserve to the system, after a failed allocation of a
// shared thread. False: nothing is left. Any thread; neither allocates nor
// throws.
bool GiveReserveAway() noexcept;
// For an allocator that must not fail: releases a MemoryReservation, then parts
// of the reserve.
bool GiveMemoryAway() noexcept;
// Drops the reserve and restores the former handler of `new`. For tests.
void DropMemoryReserve();

// During its life `new` on this thread throws instead of using the reserve.
class WorkMayLackMemory {
 public:
  WorkMayLackMemory();
  ~WorkMayLackMemory();
  WorkMayLackMemory(const WorkMayLackMemory&) = delete;
  WorkMayLackMemory& operator=(const WorkMayLackMemory&) = delete;
};

// Memory reserved for work that is about to begin. Released by the destructor,
// or when memory ends.
class MemoryReservation {
 public:
  // Null if the system has too little.
  static std::unique_ptr<MemoryReservation> Take(size_t num_bytes);
  ~MemoryReservation();
  MemoryReservation(const MemoryReservation&) = delete;
  MemoryReservation& operator=(const MemoryReservation&) = delete;

 private:
  friend bool GiveMemoryAway() noexcept;

  MemoryReservation(void* data, size_t num_bytes);
  void Unmap();

  void* data_;  // null: released
  size_t num_bytes_;
  MemoryReservation* next_;
  MemoryReservation** self_;  // the pointer to this
};

}  // namespace winnow

#endif  // WINNOW_BASE_MEMORY_RESERVE_H_
