// What a process keeps back for the moment at which memory ends, so that one
// who asks for too much is told so and nobody else hears of it.
//
// Where `new` finds no memory, threads that serve all give a part of the
// reserve back to the system and try again; a thread that does one request's
// work gets std::bad_alloc, which ends that request. The Rust library can do
// neither: what it may take is set aside before it is called
// (MemoryReservation), and goes back when it finds none. All of it is address
// space that is never touched: it costs no memory, and works where the system
// counts what is asked for (limits of a process, strict overcommit). Of memory
// that the system has promised to too many, nobody here is told: that is the
// bounds' part.
//
// The handler of `new` is the process', and so is this.
#ifndef WINNOW_BASE_MEMORY_RESERVE_H_
#define WINNOW_BASE_MEMORY_RESERVE_H_

#include <cstddef>
#include <memory>

#include "base/result.h"

namespace winnow {

// What a server keeps. Far more than threads that serve all take for what was
// let in; given back in parts.
inline constexpr size_t kMemoryReserveBytes = size_t{64} << 20;
inline constexpr size_t kMemoryReservePartBytes = size_t{4} << 20;

// From now on the process has it, and `new` uses it. Fails where the system
// has not that much.
Status KeepMemoryReserve();
// Takes back what was given. False where less than half is there even so: then
// nothing more is to be begun. True where none is kept. Any thread.
bool RetakeMemoryReserve();
// Where an allocation has failed that serves all: gives a part of the reserve
// to the system. False: nothing is left. Any thread; neither allocates nor
// throws.
bool GiveReserveAway() noexcept;
// For an allocator that cannot fail, where it would: a room, then the reserve.
bool GiveMemoryAway() noexcept;
// The reserve is gone from here on, and new's handler is what it was. For
// tests.
void DropMemoryReserve();

// While it lives, `new` on this thread throws rather than take of the reserve.
class WorkMayLackMemory {
 public:
  WorkMayLackMemory();
  ~WorkMayLackMemory();
  WorkMayLackMemory(const WorkMayLackMemory&) = delete;
  WorkMayLackMemory& operator=(const WorkMayLackMemory&) = delete;
};

// Set aside for what is about to be done, until this ends or memory does.
class MemoryReservation {
 public:
  // Null where the system has not that much.
  static std::unique_ptr<MemoryReservation> Take(size_t num_bytes);
  ~MemoryReservation();
  MemoryReservation(const MemoryReservation&) = delete;
  MemoryReservation& operator=(const MemoryReservation&) = delete;

 private:
  friend bool GiveMemoryAway() noexcept;

  MemoryReservation(void* data, size_t num_bytes);
  void Unmap();

  void* data_;  // null: given away
  size_t num_bytes_;
  MemoryReservation* next_;
  MemoryReservation** self_;  // what points here
};

}  // namespace winnow

#endif  // WINNOW_BASE_MEMORY_RESERVE_H_
