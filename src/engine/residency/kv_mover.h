// KvMover: copies of pages between tiers, counted.
#ifndef WINNOW_ENGINE_RESIDENCY_KV_MOVER_H_
#define WINNOW_ENGINE_RESIDENCY_KV_MOVER_H_

#include <cstdint>
#include <span>

#include "cache/host/host_pool.h"
#include "engine/request/engine_counters.h"

namespace winnow {

// Enqueues copies on the queue that the caller names, before all that comes
// there later. Used by the engine's thread alone.
class KvMover {
 public:
  // `page_bytes`: of a page over all layers. REQUIRES: traffic outlives this.
  KvMover(int64_t page_bytes, KvTraffic& traffic)
      : page_bytes_(page_bytes), traffic_(traffic) {}

  // Between the device and a pool of the host.
  void Move(Queue& queue, const HostPool& host,
            std::span<const TierCopy> copies) {
    for (const TierCopy& copy : copies) {
      (copy.direction == TierCopy::Direction::kToHost
           ? traffic_.device_to_host_bytes
           : traffic_.host_to_device_bytes) += page_bytes_;
    }
    host.Apply(queue, copies);
  }
  // Between two pools of the host, which counts as no traffic.
  void Move(Queue& queue, const HostPool& from, const HostPool& to,
            std::span<const HostCopy> copies) {
    from.CopyTo(queue, to, copies);
  }
  int64_t page_bytes() const { return page_bytes_; }

 private:
  const int64_t page_bytes_;
  KvTraffic& traffic_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RESIDENCY_KV_MOVER_H_
