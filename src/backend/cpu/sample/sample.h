// Sample on the CPU.
#ifndef WINNOW_BACKEND_CPU_SAMPLE_SAMPLE_H_
#define WINNOW_BACKEND_CPU_SAMPLE_SAMPLE_H_

#include <memory>
#include <span>

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace winnow {

// Where each worker keeps the logits that it changes: see SampleRowArgs. Owned
// by the backend, 2 MiB of address space a worker, of which pages are touched
// where tokens are seen or biased: the price of no allocation in a step and of
// lists in any order.
class SampleWorkspace {
 public:
  explicit SampleWorkspace(int num_workers)
      : floats_(std::make_unique_for_overwrite<float[]>(
            static_cast<size_t>(num_workers) * kMaxSampledVocab)) {}

  std::span<float> OriginalsOf(int worker) {
    return {floats_.get() + static_cast<size_t>(worker) * kMaxSampledVocab,
            kMaxSampledVocab};
  }

 private:
  std::unique_ptr<float[]> floats_;  // [workers, kMaxSampledVocab]
};

// One worker a row; each row by SampleRow (sample_row.h), so a token depends on
// its own row alone. REQUIRES: the workspace is made for the pool's workers.
void SampleScalar(const SampleArgs& args, SampleWorkspace& workspace,
                  ThreadPool& pool);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SAMPLE_SAMPLE_H_
