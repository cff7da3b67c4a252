// Cluster: the threads of the blocks that run together, as fibers.
#ifndef WINNOW_BACKEND_CUDA_EMULATED_CLUSTER_H_
#define WINNOW_BACKEND_CUDA_EMULATED_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "backend/cuda/emulated/async_copies.h"
#include "backend/cuda/emulated/fiber.h"

namespace winnow::emulated {

inline constexpr int kWarpLanes = 32;
inline constexpr size_t kMaxSharedBytes = size_t{227} << 10;  // a block

struct KvBlock {
  unsigned x = 1, y = 1, z = 1;
  int64_t size() const { return int64_t{x} * y * z; }
};

// What a launch asks for.
struct LaunchShape {
  KvBlock grid;
  int num_threads = 0;  // a block
  size_t dynamic_shared_bytes = 0;
  int cluster_blocks = 1;  // along x
};

// Owns fibers, shared memory and what is under way in them; kept from launch
// to launch. A thread runs until it meets others; who runs next is drawn, so
// that what only a barrier would order comes in any order. Shared memory is
// NaN when a block begins and when it has ended. Used by one thread.
class Cluster {
 public:
  explicit Cluster(unsigned seed) : random_(seed) {}
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Runs the grid's clusters one after another, in an order that is drawn.
  void Run(const LaunchShape& shape, const std::function<void()>& kernel);

  // What the running thread asks for. A meeting's last lane calls
  // `complete` with what each lane brought, before anyone goes on. CHECK-fails
  // where lanes meet for different things.
  using Complete = void (*)(void* const* lanes);  // [kWarpLanes]
  void MeetWarp(const char* what, void* mine, Complete complete);
  void MeetBlock();
  void MeetCluster();
  int lane() const { return thread_ % kWarpLanes; }
  int rank() const { return thread_ / num_threads_; }  // of the block
  int num_blocks() const { return num_blocks_; }
  bool DrawHalf() { return Draw(2) == 0; }
  AsyncCopies& copies() { return copies_[static_cast<size_t>(thread_)]; }

  // Shared memory of the running block: what the launch asked for, and what
  // the kernel declares at a line, behind it.
  std::byte* DynamicShared() { return Window(rank()); }
  std::byte* DeclaredShared(int line, size_t num_bytes);
  // From addresses to offsets in the block's window and back.
  uint32_t SharedOffset(const void* pointer);
  std::byte* SharedAt(uint32_t offset, size_t num_bytes);
  // The same place in another block's window.
  std::byte* OfBlock(const void* pointer, unsigned of_rank);

 private:
  // Lanes as bits.
  struct Warp {
    uint32_t ready = ~0u, at_warp = 0, at_block = 0, at_cluster = 0, ended = 0;
    const char* meets_for = nullptr;
    void* brought[kWarpLanes] = {};
  };
  struct Declared {
    int line;
    size_t offset;
  };
  struct Block {
    KvBlock index;
    int num_waiting = 0, num_ended = 0;  // threads
    std::vector<Declared> declared;
    size_t shared_bytes = 0;
  };

  void Begin(const LaunchShape& shape, int64_t first_block);
  void RunThreads();
  void RunWarp(int warp);
  void RunLane(int warp, int lane);
  void EndThread();
  // Of the running thread's block; whether all are there.
  bool LeaveBlockBarrier();
  bool LeaveClusterBarrier();
  [[noreturn]] void FailStuck() const;
  std::byte* Window(int block);
  Warp& OwnWarp() { return warps_[static_cast<size_t>(thread_ / kWarpLanes)]; }
  unsigned Draw(unsigned below) {
    return static_cast<unsigned>(random_() % below);
  }

  const std::function<void()>* kernel_ = nullptr;
  int num_threads_ = 0, num_blocks_ = 0, thread_ = 0, num_waiting_ = 0,
      num_ended_ = 0;
  KvBlock grid_;
  std::vector<Block> blocks_;
  std::vector<Warp> warps_;
  std::vector<Fiber*> fibers_;  // of threads that have begun
  std::vector<AsyncCopies> copies_;
  std::vector<std::byte> windows_;
  std::vector<std::unique_ptr<Fiber>> all_fibers_;
  std::vector<Fiber*> free_fibers_;
  std::minstd_rand random_;
};

// The one that is running, for what CUDA's built-in functions are made of.
Cluster& Running();

}  // namespace winnow::emulated

#endif  // WINNOW_BACKEND_CUDA_EMULATED_CLUSTER_H_
