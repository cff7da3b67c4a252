// What the engine counts of what it does.
#include "engine/engine.h"

namespace winnow {

void Engine::CopyTiers(const HostPool& host, std::span<const TierCopy> copies) {
  for (const TierCopy& copy : copies) {
    (copy.direction == TierCopy::Direction::kToHost
         ? counters_.traffic.device_to_host_bytes
         : counters_.traffic.host_to_device_bytes) += limits_.page_bytes;
  }
  runner_->CopyTiers(host, copies);
}

// No such step is under way when anybody ends, so none has gone uncounted.
void Engine::CountLayerCopies(const StepItem& item, Sequence& sequence) {
  const int64_t num_written = layerwise_->BytesToHost(sequence, item);
  sequence.CountWritten(num_written);
  counters_.traffic.device_to_host_bytes += num_written;
  counters_.traffic.host_to_device_bytes +=
      layerwise_->BytesFromHost(sequence, item);
}

void Engine::CountFound(const Sequence& sequence) {
  if (!prefixes_->LooksUp(sequence)) return;
  counters_.num_looked_up_tokens += sequence.num_prompt_tokens();
  counters_.num_found_tokens += sequence.num_cached_tokens();
}

double Engine::LinkMs(int64_t num_bytes) const {
  if (link_bytes_per_second_ == 0) return 0;
  return 1000 * static_cast<double>(num_bytes) / link_bytes_per_second_;
}

EngineCounters Engine::counters() const {
  EngineCounters counters = counters_;
  counters.traffic.host_to_device_bytes +=
      counters.brought.fetched_bytes + counters.brought.near_bytes;
  if (disk_) {
    const DiskCounts& disk = disk_->store().counts();
    counters.traffic.host_to_disk_bytes = disk.num_written * limits_.page_bytes;
    counters.traffic.disk_to_host_bytes = disk.num_read * limits_.page_bytes;
  }
  counters.stall_ms += LinkMs(counters.traffic.host_to_device_bytes);
  return counters;
}

}  // namespace winnow
