#include "base/memory_reserve.h"

#include <malloc.h>
#include <sys/mman.h>

#include <array>
#include <mutex>
#include <new>

namespace winnow {
namespace {

constexpr size_t kNumParts = kMemoryReserveBytes / kMemoryReservePartBytes;

std::mutex mutex;  // for what follows; nobody allocates under it
bool is_kept = false;
std::array<void*, kNumParts> parts = {};  // null: given, or never taken
MemoryReservation* rooms = nullptr;

thread_local int num_that_may_lack = 0;

// Not counted against what memory there is, unless the system counts strictly:
// a room is an upper bound, and may be larger than memory.
void* Map(size_t num_bytes) {
  void* const data = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                          /*fd=*/-1, /*offset=*/0);
  return data == MAP_FAILED ? nullptr : data;
}

// How many there are then. REQUIRES: mutex is held.
size_t TakeMissing() {
  size_t num_taken = 0;
  for (void*& part : parts) {
    if (part == nullptr) part = Map(kMemoryReservePartBytes);
    if (part == nullptr) break;
    ++num_taken;
  }
  return num_taken;
}

// REQUIRES: mutex is held.
bool GivePart() {
  for (void*& part : parts) {
    if (part == nullptr) continue;
    munmap(part, kMemoryReservePartBytes);
    part = nullptr;
    return true;
  }
  return false;
}

void HandleFailedNew() {
  if (num_that_may_lack > 0 || !GiveReserveAway()) throw std::bad_alloc();
}

}  // namespace

Status KeepMemoryReserve() {
  {
    const std::scoped_lock lock(mutex);
    is_kept = true;
  }
  if (RetakeMemoryReserve()) {
    std::set_new_handler(HandleFailedNew);
    return Ok{};
  }
  return MakeError(ErrorCode::kResourceExhausted,
                   "memory does not suffice for a reserve of {} bytes",
                   kMemoryReserveBytes);
}

bool RetakeMemoryReserve() {
  {
    const std::scoped_lock lock(mutex);
    if (!is_kept || TakeMissing() == kNumParts) return true;
  }
  // What threads have freed is the library's until somebody asks for it.
  malloc_trim(/*pad=*/0);
  const std::scoped_lock lock(mutex);
  return TakeMissing() >= kNumParts / 2;
}

bool GiveReserveAway() noexcept {
  const std::scoped_lock lock(mutex);
  return GivePart();
}

bool GiveMemoryAway() noexcept {
  const std::scoped_lock lock(mutex);
  if (rooms == nullptr) return GivePart();
  rooms->Unmap();
  return true;
}

void DropMemoryReserve() {
  const std::scoped_lock lock(mutex);
  is_kept = false;
  while (GivePart()) {
  }
  std::set_new_handler(nullptr);
}

WorkMayLackMemory::WorkMayLackMemory() { ++num_that_may_lack; }

WorkMayLackMemory::~WorkMayLackMemory() { --num_that_may_lack; }

std::unique_ptr<MemoryReservation> MemoryReservation::Take(size_t num_bytes) {
  void* const data = Map(num_bytes);
  if (data == nullptr) return nullptr;
  auto* const room = new (std::nothrow) MemoryReservation(data, num_bytes);
  if (room == nullptr) munmap(data, num_bytes);
  return std::unique_ptr<MemoryReservation>(room);
}

MemoryReservation::MemoryReservation(void* data, size_t num_bytes)
    : data_(data), num_bytes_(num_bytes) {
  const std::scoped_lock lock(mutex);
  next_ = rooms;
  self_ = &rooms;
  if (next_ != nullptr) next_->self_ = &next_;
  rooms = this;
}

MemoryReservation::~MemoryReservation() {
  const std::scoped_lock lock(mutex);
  if (data_ != nullptr) Unmap();
}

// REQUIRES: mutex is held, and it has not been given away.
void MemoryReservation::Unmap() {
  munmap(data_, num_bytes_);
  data_ = nullptr;
  *self_ = next_;
  if (next_ != nullptr) next_->self_ = self_;
}

}  // namespace winnow
