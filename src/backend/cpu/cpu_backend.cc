#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "backend/cpu/attend/attend.h"
#include "backend/cpu/attend/attend_estimates.h"
#include "backend/cpu/attend/merge_states.h"
#include "backend/cpu/fetch/fetch.h"
#include "backend/cpu/host_memory.h"
#include "backend/cpu/isa/vector_attend.h"
#include "backend/cpu/isa/vector_select.h"
#include "backend/cpu/linear/linear.h"
#include "backend/cpu/linear/vector_linear.h"
#include "backend/cpu/rows/append.h"
#include "backend/cpu/rows/copy_page_prefixes.h"
#include "backend/cpu/rows/embed.h"
#include "backend/cpu/rows/gated_act.h"
#include "backend/cpu/rows/gather_rows.h"
#include "backend/cpu/rows/rms_norm.h"
#include "backend/cpu/rows/rotary_angles.h"
#include "backend/cpu/sample/sample.h"
#include "backend/cpu/select/cluster_keys.h"
#include "backend/cpu/select/fixed_choice.h"
#include "backend/cpu/select/gate.h"
#include "backend/cpu/select/select.h"
#include "backend/cpu/select/summarize.h"
#include "base/thread_pool.h"

namespace winnow {
namespace {

// A queue has nothing to keep: its work is done when an op returns.
class CpuQueue final : public Queue {};

CpuKernels ResolveKernels(CpuKernels asked) {
  const std::vector<CpuKernels> available = AvailableCpuKernels();
  if (asked == CpuKernels::kBest) return available.back();
  CHECK(std::ranges::find(available, asked) != available.end(),
        "this CPU cannot run the {} kernels, its best are {}",
        CpuKernelsName(asked), CpuKernelsName(available.back()));
  return asked;
}

// Owns the workers; see MakeCpuBackend for who may call it.
class CpuBackend final : public Backend {
 public:
  CpuBackend(CpuKernels kernels, std::unique_ptr<ThreadPool> pool)
      : kernels_(ResolveKernels(kernels)),
        threads_(std::move(pool)),
        sample_workspace_(pool_.num_workers()),
        select_scratch_(static_cast<size_t>(pool_.num_workers())),
        fetch_workspace_(pool_.num_workers()) {
    attributes_.name = "cpu";
    attributes_.kernels =
        fmt::format("CPU, {} kernels", CpuKernelsName(kernels_));
    attributes_.description =
        fmt::format("{}, {} threads", attributes_.kernels, pool_.num_workers());
    attributes_.memory_bytes = TotalHostBytes();
    attributes_.available_bytes = AvailableHostBytes();
    attributes_.device_is_host = true;
    attributes_.select_features = kEverySelectFeature;
    if (kernels_ == CpuKernels::kScalar) {
      fixed_choices_.emplace(nullptr, pool_);
      index_.emplace(nullptr, pool_);
      estimates_.emplace(nullptr, pool_);
      return;
    }
    read_kernels_ = VectorKernelsOf(kernels_);
    fixed_choices_.emplace(&read_kernels_, pool_);
    index_.emplace(&read_kernels_, pool_);
    estimates_.emplace(&read_kernels_, pool_);
    vector_linear_.emplace(kernels_, pool_);
    vector_read_.emplace(kernels_, pool_);
    vector_select_.emplace(kernels_, pool_);
  }

  const BackendAttributes& attributes() const override { return attributes_; }

  Result<Buffer> Allocate(Tier tier, size_t num_bytes,
                          std::string_view purpose) override {
    CHECK(tier != Tier::kDisk, "disk is not a backend's to give");
    ASSIGN_OR_RETURN(Buffer memory, Buffer::AllocateHost(num_bytes, purpose));
    // The same memory under the name that was asked for.
    auto owner = std::make_shared<Buffer>(std::move(memory));
    return Buffer(tier, owner->data(), num_bytes,
                  [owner](std::byte*, size_t) {});
  }

  std::unique_ptr<Queue> MakeQueue() override {
    return std::make_unique<CpuQueue>();
  }
  Event Record(Queue&) override { return {++num_events_}; }
  Status Wait(Event event, std::chrono::milliseconds) override {
    CHECK(event.ticket <= num_events_, "ticket={} of {}", event.ticket,
          num_events_);
    return Ok{};
  }

  void Copy(Queue&, const View& from, const View& to) override {
    CHECK(from.dtype == to.dtype && from.contiguous() && to.contiguous() &&
              from.num_elements() == to.num_elements(),
          "from {} to {}", ToString(from), ToString(to));
    if (from.num_elements() == 0) return;
    std::memmove(to.data, from.data, static_cast<size_t>(from.num_bytes()));
  }

  void Replay(Queue&, std::span<const std::byte>,
              const std::function<void()>& enqueue) override {
    enqueue();
  }

  Result<std::vector<LaunchTime>> Profile(
      Queue&, const std::function<void()>& enqueue) override {
    const auto start = std::chrono::steady_clock::now();
    enqueue();
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    return std::vector<LaunchTime>{{.name = "all", .seconds = took.count()}};
  }

  void Embed(Queue&, const EmbedArgs& args) override { EmbedRows(args, pool_); }
  void RmsNorm(Queue&, const RmsNormArgs& args) override {
    RmsNormRows(args, pool_);
  }
  void Linear(Queue&, const LinearArgs& args) override {
    if (args.norm) RmsNormRows(*args.norm, pool_);
    if (vector_linear_) {
      vector_linear_->Linear(args);
    } else {
      LinearScalar(args, pool_);
    }
    if (args.gated_act) GatedActRows(*args.gated_act, pool_);
  }
  void RotaryAngles(Queue&, const LayerStep& step,
                    const RotaryAnglesArgs& args) override {
    RotaryAngleRows(step, args, pool_);
  }
  void GatedAct(Queue&, const GatedActArgs& args) override {
    GatedActRows(args, pool_);
  }
  void Append(Queue&, const LayerStep& step, const TokenInputs& inputs,
              const LayerCache& cache) override {
    AppendRows(step, inputs, cache, pool_);
  }
  void Summarize(Queue&, const LayerStep& step, const SummarizeArgs& args,
                 const LayerCache& cache) override {
    SummarizeRows(step, args, cache, pool_);
    fixed_choices_->Fix(step, args, cache);
  }
  void ClusterKeys(Queue&, const LayerStep& step, const ClusterKeysArgs& args,
                   const LayerCache& cache) override {
    index_->ClusterKeys(step, args, cache);
  }
  void Select(Queue&, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override {
    const View gates = gate_queries_.Make(step, args, cache, pool_);
    if (vector_select_) {
      vector_select_->Select(step, args, cache, gates);
    } else {
      SelectScalar(step, args, cache, gates, select_scratch_, pool_);
    }
  }
  void Fetch(Queue&, const LayerStep& step, const FetchArgs& args,
             const LayerCache& cache) override {
    FetchPieces(step, args, cache, fetch_workspace_, pool_);
  }
  void Attend(Queue&, const LayerStep& step, const AttendArgs& args,
              const LayerCache& cache) override {
    if (args.sources[0].kind == AttendSource::Kind::kEstimates) {
      estimates_->Attend(step, args, cache);
    } else if (vector_read_) {
      vector_read_->Attend(step, args, cache);
    } else {
      AttendScalar(step, args, cache, pool_);
    }
  }
  void MergeStates(Queue&, const LayerStep& step,
                   const MergeStatesArgs& args) override {
    MergeRows(step, args, pool_);
  }
  void GatherRows(Queue&, const GatherRowsArgs& args) override {
    GatherRowsOf(args, pool_);
  }
  void Sample(Queue&, const SampleArgs& args) override {
    SampleScalar(args, sample_workspace_, pool_);
  }
  void CopyPagePrefixes(Queue&, const CopyPagePrefixesArgs& args) override {
    MovePages(args, pool_);
  }

 private:
  const CpuKernels kernels_;
  BackendAttributes attributes_;
  const std::unique_ptr<ThreadPool> threads_;
  ThreadPool& pool_ = *threads_;
  SampleWorkspace sample_workspace_;
  std::vector<SelectScratch> select_scratch_;
  FetchWorkspace fetch_workspace_;
  std::optional<VectorLinear> vector_linear_;
  std::optional<VectorAttend> vector_read_;
  std::optional<VectorSelect> vector_select_;
  VectorKernels read_kernels_;
  std::optional<FixedChoices> fixed_choices_;
  std::optional<SegmentIndex> index_;
  GateQueries gate_queries_;
  std::optional<EstimateAttention> estimates_;
  uint64_t num_events_ = 0;
};

}  // namespace

Result<std::unique_ptr<Backend>> StartCpuBackend(const CpuOptions& options) {
  const int num_asked = ThreadPool::CountWorkers(options.num_threads);
  auto pool = std::make_unique<ThreadPool>(num_asked);
  const int num_started = pool->num_workers();
  if (num_started < num_asked) {
    pool.reset();  // The message needs memory too.
    return MakeError(ErrorCode::kResourceExhausted,
                     "threads must be at most {} (the system starts no more), "
                     "is {}",
                     num_started, num_asked);
  }
  return std::unique_ptr<Backend>(
      std::make_unique<CpuBackend>(options.kernels, std::move(pool)));
}

std::unique_ptr<Backend> MakeCpuBackend(const CpuOptions& options) {
  Result<std::unique_ptr<Backend>> backend = StartCpuBackend(options);
  CHECK(backend.ok(), "{}", backend.error().message);
  return std::move(backend).value();
}

}  // namespace winnow
