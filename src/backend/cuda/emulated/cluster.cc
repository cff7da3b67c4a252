#include "backend/cuda/emulated/cluster.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "backend/cuda/emulated/include/cuda_runtime.h"
#include "base/check.h"

// CUDA's built-in variables: those of the thread that runs.
dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace winnow::emulated {
namespace {

// A NaN in every type.
constexpr int kPoison = 0xff;
constexpr size_t kAlignment = 1024;

Cluster* running = nullptr;

size_t AlignedUp(size_t num_bytes, size_t alignment) {
  return (num_bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

Cluster& Running() {
  CHECK(running != nullptr, "device code outside of a kernel");
  return *running;
}

void Cluster::Run(const LaunchShape& shape,
                  const std::function<void()>& kernel) {
  CHECK(running == nullptr, "a kernel within a kernel");
  running = this;
  kernel_ = &kernel;
  std::vector<int64_t> firsts(
      static_cast<size_t>(shape.grid.size() / shape.cluster_blocks));
  for (size_t i = 0; i < firsts.size(); ++i) {
    firsts[i] = static_cast<int64_t>(i) * shape.cluster_blocks;
  }
  std::shuffle(firsts.begin(), firsts.end(), random_);
  for (const int64_t first : firsts) {
    Begin(shape, first);
    RunThreads();
  }
  running = nullptr;
}

void Cluster::Begin(const LaunchShape& shape, int64_t first_block) {
  grid_ = shape.grid;
  num_threads_ = shape.num_threads;
  num_blocks_ = shape.cluster_blocks;
  num_waiting_ = num_ended_ = 0;
  const auto num_blocks = static_cast<size_t>(num_blocks_);
  const size_t num_threads = num_blocks * static_cast<size_t>(num_threads_);
  warps_.assign(num_threads / kWarpLanes, Warp());
  blocks_.assign(num_blocks, Block());
  fibers_.assign(num_threads, nullptr);
  if (copies_.size() < num_threads) copies_.resize(num_threads);
  if (windows_.size() < num_blocks * kMaxSharedBytes + kAlignment) {
    windows_.resize(num_blocks * kMaxSharedBytes + kAlignment);
  }
  for (int i = 0; i < num_blocks_; ++i) {
    Block& block = blocks_[static_cast<size_t>(i)];
    const auto number = static_cast<uint64_t>(first_block + i);
    block.index = {static_cast<unsigned>(number % grid_.x),
                   static_cast<unsigned>(number / grid_.x % grid_.y),
                   static_cast<unsigned>(number / grid_.x / grid_.y)};
    block.shared_bytes = shape.dynamic_shared_bytes;
    std::memset(Window(i), kPoison, block.shared_bytes);
  }
  blockDim = dim3(static_cast<unsigned>(num_threads_));
  gridDim = dim3(grid_.x, grid_.y, grid_.z);
}

void Cluster::RunThreads() {
  const auto num_warps = static_cast<unsigned>(warps_.size());
  while (num_ended_ < num_blocks_ * num_threads_) {
    const unsigned first = Draw(num_warps);
    unsigned skipped = 0;
    while (warps_[(first + skipped) % num_warps].ready == 0) {
      if (++skipped == num_warps) FailStuck();
    }
    const unsigned warp = (first + skipped) % num_warps;
    // Some warps run far ahead of others, and some step by step.
    constexpr int kPasses[] = {1, 3, 20, 1 << 30};
    const int num_passes = kPasses[Draw(4)];
    for (int i = 0; i < num_passes && warps_[warp].ready != 0; ++i) {
      RunWarp(static_cast<int>(warp));
    }
  }
}

void Cluster::RunWarp(int warp) {
  const unsigned drawn = Draw(2 * kWarpLanes);
  const unsigned first = drawn / 2, step = drawn % 2 == 0 ? 1 : kWarpLanes - 1;
  for (unsigned i = 0; i < kWarpLanes; ++i) {
    const unsigned lane = (first + i * step) % kWarpLanes;
    if ((warps_[static_cast<size_t>(warp)].ready >> lane & 1) != 0) {
      RunLane(warp, static_cast<int>(lane));
    }
  }
}

void Cluster::RunLane(int warp, int lane) {
  thread_ = warp * kWarpLanes + lane;
  threadIdx = dim3(static_cast<unsigned>(thread_ % num_threads_), 0, 0);
  const KvBlock& index = blocks_[static_cast<size_t>(rank())].index;
  blockIdx = dim3(index.x, index.y, index.z);
  Fiber*& fiber = fibers_[static_cast<size_t>(thread_)];
  if (fiber == nullptr) {
    if (free_fibers_.empty()) {
      all_fibers_.push_back(std::make_unique<Fiber>());
      free_fibers_.push_back(all_fibers_.back().get());
    }
    fiber = free_fibers_.back();
    free_fibers_.pop_back();
    copies().Clear();
    fiber->Begin(
        [](void* of) {
          auto* cluster = static_cast<Cluster*>(of);
          (*cluster->kernel_)();
          cluster->EndThread();
        },
        this);
  }
  Fiber* const ran = fiber;
  ran->Resume();
  const Warp& of = warps_[static_cast<size_t>(warp)];
  if ((of.ended >> lane & 1) != 0) free_fibers_.push_back(ran);
}

void Cluster::MeetWarp(const char* what, void* mine, Complete complete) {
  Warp& warp = OwnWarp();
  const uint32_t bit = uint32_t{1} << lane();
  CHECK(warp.ended == 0, "{}: lanes {:08x} have ended", what, warp.ended);
  if (warp.at_warp == 0) warp.meets_for = what;
  CHECK(std::strcmp(warp.meets_for, what) == 0, "thread {}: {}, others: {}",
        thread_, what, warp.meets_for);
  warp.brought[lane()] = mine;
  warp.at_warp |= bit;
  if (warp.at_warp == ~0u) {
    warp.at_warp = 0;
    warp.ready = ~0u;
    complete(warp.brought);
    return;
  }
  warp.ready &= ~bit;
  fibers_[static_cast<size_t>(thread_)]->Suspend();
}

void Cluster::MeetBlock() {
  Warp& warp = OwnWarp();
  Block& block = blocks_[static_cast<size_t>(rank())];
  warp.at_block |= uint32_t{1} << lane();
  warp.ready &= ~warp.at_block;
  ++block.num_waiting;
  if (LeaveBlockBarrier()) return;
  fibers_[static_cast<size_t>(thread_)]->Suspend();
}

void Cluster::MeetCluster() {
  Warp& warp = OwnWarp();
  warp.at_cluster |= uint32_t{1} << lane();
  warp.ready &= ~warp.at_cluster;
  ++num_waiting_;
  if (LeaveClusterBarrier()) return;
  fibers_[static_cast<size_t>(thread_)]->Suspend();
}

bool Cluster::LeaveBlockBarrier() {
  Block& block = blocks_[static_cast<size_t>(rank())];
  if (block.num_waiting == 0 ||
      block.num_waiting + block.num_ended < num_threads_) {
    return false;
  }
  block.num_waiting = 0;
  const int num_warps = num_threads_ / kWarpLanes;
  for (int i = rank() * num_warps; i < (rank() + 1) * num_warps; ++i) {
    Warp& warp = warps_[static_cast<size_t>(i)];
    warp.ready |= std::exchange(warp.at_block, 0);
  }
  return true;
}

bool Cluster::LeaveClusterBarrier() {
  if (num_waiting_ == 0 ||
      num_waiting_ + num_ended_ < num_threads_ * num_blocks_) {
    return false;
  }
  num_waiting_ = 0;
  for (Warp& warp : warps_) warp.ready |= std::exchange(warp.at_cluster, 0);
  return true;
}

// Threads that have ended hold up no barrier.
void Cluster::EndThread() {
  Warp& warp = OwnWarp();
  Block& block = blocks_[static_cast<size_t>(rank())];
  const uint32_t bit = uint32_t{1} << lane();
  CHECK(warp.at_warp == 0, "thread {} ends while lanes {:08x} wait for {}",
        thread_, warp.at_warp, warp.meets_for);
  warp.ended |= bit;
  warp.ready &= ~bit;
  ++num_ended_;
  if (++block.num_ended == num_threads_) {
    // Other blocks may no longer read it.
    std::memset(Window(rank()), kPoison, block.shared_bytes);
  }
  LeaveBlockBarrier();
  LeaveClusterBarrier();
}

void Cluster::FailStuck() const {
  std::string waiting;
  for (size_t i = 0; i < warps_.size(); ++i) {
    const Warp& warp = warps_[i];
    if (warp.ended == ~0u) continue;
    waiting += fmt::format(
        " warp {}: lanes {:08x} at {}, {:08x} at __syncthreads, {:08x} at the "
        "cluster's barrier, {:08x} ended;",
        i, warp.at_warp, warp.at_warp == 0 ? "nothing" : warp.meets_for,
        warp.at_block, warp.at_cluster, warp.ended);
  }
  CHECK(false, "all threads wait:{}", waiting);
}

std::byte* Cluster::Window(int block) {
  const auto base = reinterpret_cast<uintptr_t>(windows_.data());
  return windows_.data() + (AlignedUp(base, kAlignment) - base) +
         static_cast<size_t>(block) * kMaxSharedBytes;
}

std::byte* Cluster::DeclaredShared(int line, size_t num_bytes) {
  Block& block = blocks_[static_cast<size_t>(rank())];
  for (const Declared& known : block.declared) {
    if (known.line == line) return Window(rank()) + known.offset;
  }
  constexpr size_t kMostAligned = 128;
  const size_t offset = AlignedUp(block.shared_bytes, kMostAligned);
  CHECK(offset + num_bytes <= kMaxSharedBytes, "shared memory: {} bytes",
        offset + num_bytes);
  block.declared.push_back({line, offset});
  block.shared_bytes = offset + num_bytes;
  std::memset(Window(rank()) + offset, kPoison, num_bytes);
  return Window(rank()) + offset;
}

uint32_t Cluster::SharedOffset(const void* pointer) {
  const auto offset = static_cast<const std::byte*>(pointer) - Window(rank());
  const size_t end = blocks_[static_cast<size_t>(rank())].shared_bytes;
  CHECK(offset >= 0 && static_cast<size_t>(offset) < end,
        "offset={} shared_bytes={}", offset, end);
  return static_cast<uint32_t>(offset);
}

std::byte* Cluster::SharedAt(uint32_t offset, size_t num_bytes) {
  const size_t end = blocks_[static_cast<size_t>(rank())].shared_bytes;
  CHECK(offset + num_bytes <= end && offset % num_bytes == 0,
        "offset={} of {} bytes, shared_bytes={}", offset, num_bytes, end);
  return Window(rank()) + offset;
}

std::byte* Cluster::OfBlock(const void* pointer, unsigned of_rank) {
  CHECK(of_rank < static_cast<unsigned>(num_blocks_), "rank={} of {} blocks",
        of_rank, num_blocks_);
  return Window(static_cast<int>(of_rank)) + SharedOffset(pointer);
}

}  // namespace winnow::emulated
