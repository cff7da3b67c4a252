// TwinMemory: a second copy, on the host, of memory that lies on a device.
#ifndef WINNOW_BACKEND_CHECKED_TWIN_MEMORY_H_
#define WINNOW_BACKEND_CHECKED_TWIN_MEMORY_H_

#include <map>
#include <span>

#include "backend/backend.h"

namespace winnow {

// Knows for every piece of device memory its twin, and translates what ops
// take. Owns the twins, not what they are twins of. Used by one thread.
class TwinMemory {
 public:
  // A twin of `device` lives until Remove.
  void Add(std::byte* device, Buffer twin);
  void Remove(std::byte* device);

  // What stands at the same place in the twin; the same address where it is
  // nobody's: the host's own memory.
  std::byte* Of(std::byte* device) const;
  template <typename T>
  T* Of(T* device) const {
    return reinterpret_cast<T*>(Of(reinterpret_cast<std::byte*>(
        const_cast<std::remove_const_t<T>*>(device))));
  }
  View Of(View view) const {
    view.data = Of(view.data);
    return view;
  }
  RowTable Of(RowTable table) const;
  LayerStep Of(LayerStep step) const;
  LayerCache Of(LayerCache cache) const;
  PickLists Of(PickLists lists) const;
  SlotTable Of(SlotTable slots) const;
  LayerSelector Of(LayerSelector selector) const;

  // The whole piece of device memory around an address, as bytes; empty where
  // it is the host's.
  View PieceAround(const std::byte* device) const;

 private:
  const std::pair<std::byte* const, Buffer>* Find(
      const std::byte* device) const;

  std::map<std::byte*, Buffer> twins_;  // by where the device's begins
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CHECKED_TWIN_MEMORY_H_
