#include <algorithm>
#include <array>
#include <cstring>

#include "base/thread_pool.h"
#include "model/weights/weight_layout.h"
#include "model/weights/weights.h"

namespace winnow {
namespace {

// A piece of pinned memory: one is filled while the other is sent.
constexpr size_t kPieceBytes = size_t{32} << 20;
// One thread brought 16 GB in 3.5 s, with all that starting takes, over a link
// of 51 GB/s (2026-11-24-bd3a9b5-h200-step.json,
// 2026-11-23-725cffb-h200-link.json): it meets each page of the mapped files
// for the first time.
constexpr int kMaxCopiers = 8;
constexpr int64_t kCopyBytes = int64_t{1} << 20;  // that one takes at a time
constexpr std::chrono::minutes kCopyTimeout(5);

// Sends bytes through two pinned pieces, in order. Owns the pieces.
class Sender {
 public:
  static Result<std::unique_ptr<Sender>> Create(Backend& backend) {
    auto sender = std::unique_ptr<Sender>(new Sender(backend));
    for (Piece& piece : sender->pieces_) {
      ASSIGN_OR_RETURN(piece.memory,
                       backend.Allocate(Tier::kHost, kPieceBytes,
                                        "a piece of weights on their way"));
    }
    return sender;
  }

  // Sends `from` to the device memory at `to`, in pieces.
  Status Send(std::span<const std::byte> from, std::byte* to) {
    while (!from.empty()) {
      Piece& piece = pieces_[turn_++ % pieces_.size()];
      if (piece.in_flight) {
        RETURN_IF_ERROR(backend_.Wait(piece.sent, kCopyTimeout));
      }
      const size_t count = std::min(from.size(), kPieceBytes);
      const auto size = static_cast<int64_t>(count);
      copiers_.ParallelRanges(
          size, kCopyBytes, [&](int64_t begin, int64_t end, int) {
            std::memcpy(piece.memory.data() + begin, from.data() + begin,
                        static_cast<size_t>(end - begin));
          });
      backend_.Copy(*queue_, piece.memory.At(0, Dtype::kUInt8, {size}),
                    MakeView(to, Dtype::kUInt8, {size}));
      piece.sent = backend_.Record(*queue_);
      piece.in_flight = true;
      from = from.subspan(count);
      to += count;
    }
    return Ok{};
  }

  Status Finish() {
    return backend_.Wait(backend_.Record(*queue_), kCopyTimeout);
  }

 private:
  struct Piece {
    Buffer memory;
    Event sent;
    bool in_flight = false;
  };

  explicit Sender(Backend& backend)
      : backend_(backend), queue_(backend.MakeQueue()) {}

  Backend& backend_;
  std::unique_ptr<Queue> queue_;
  ThreadPool copiers_{std::min(kMaxCopiers, ThreadPool::CountWorkers(0))};
  std::array<Piece, 2> pieces_;
  size_t turn_ = 0;
};

}  // namespace

Status Weights::Upload(Backend& backend, const LoadProgress& progress) {
  const bool tied = lm_head.codes.data == embedding.data;
  const WeightLayout layout = WeightLayout::Of(*this, tied);
  ASSIGN_OR_RETURN(
      Buffer memory,
      backend.Allocate(Tier::kDevice, layout.num_bytes, "weights"));
  ASSIGN_OR_RETURN(const std::unique_ptr<Sender> sender,
                   Sender::Create(backend));
  for (const auto& [view, offset] : layout.places) {
    std::byte* to = memory.data() + offset;
    const auto num_bytes = static_cast<size_t>(view->num_bytes());
    RETURN_IF_ERROR(sender->Send({view->data, num_bytes}, to));
    view->data = to;
    if (progress) {
      progress(static_cast<int64_t>(offset + num_bytes),
               static_cast<int64_t>(layout.num_bytes));
    }
  }
  RETURN_IF_ERROR(sender->Finish());
  JoinLayers(*this);
  if (tied) lm_head = DenseMatrix(embedding);
  device_memory_ = std::move(memory);
  checkpoint_ = {};
  copies_ = {};
  return Ok{};
}

}  // namespace winnow
