#include <algorithm>
#include <array>
#include <cstring>

#include "base/thread_pool.h"
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
constexpr size_t kGroupAlignment = 256;
constexpr std::chrono::minutes kCopyTimeout(5);

// Tensors that stand side by side, so that products which share an input can
// be one (Backend::Linear).
using Group = std::vector<View*>;

std::vector<Group> GroupsOf(Weights& weights) {
  std::vector<Group> groups = {{&weights.embedding}};
  for (LayerWeights& layer : weights.layers) {
    groups.insert(groups.end(), {{&layer.input_norm},
                                 {&layer.q, &layer.k, &layer.v},
                                 {&layer.q_bias, &layer.k_bias, &layer.v_bias},
                                 {&layer.q_norm},
                                 {&layer.k_norm},
                                 {&layer.o},
                                 {&layer.o_bias},
                                 {&layer.post_attention_norm},
                                 {&layer.gate, &layer.up},
                                 {&layer.gate_bias, &layer.up_bias},
                                 {&layer.down},
                                 {&layer.down_bias}});
  }
  groups.push_back({&weights.final_norm});
  if (weights.lm_head.data != weights.embedding.data) {
    groups.push_back({&weights.lm_head});
  }
  for (Group& group : groups) {
    std::erase_if(group, [](const View* view) { return view->empty(); });
  }
  std::erase_if(groups, [](const Group& group) { return group.empty(); });
  return groups;
}

size_t Aligned(size_t num_bytes) {
  return (num_bytes + kGroupAlignment - 1) / kGroupAlignment * kGroupAlignment;
}

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
  const bool tied = lm_head.data == embedding.data;
  const std::vector<Group> groups = GroupsOf(*this);
  size_t num_bytes = 0;
  for (const Group& group : groups) {
    for (const View* view : group) {
      num_bytes += static_cast<size_t>(view->num_bytes());
    }
    num_bytes = Aligned(num_bytes);
  }
  ASSIGN_OR_RETURN(Buffer memory,
                   backend.Allocate(Tier::kDevice, num_bytes, "weights"));
  ASSIGN_OR_RETURN(const std::unique_ptr<Sender> sender,
                   Sender::Create(backend));
  size_t offset = 0;
  for (const Group& group : groups) {
    for (View* view : group) {
      std::byte* to = memory.data() + offset;
      RETURN_IF_ERROR(sender->Send(
          {view->data, static_cast<size_t>(view->num_bytes())}, to));
      view->data = to;
      offset += static_cast<size_t>(view->num_bytes());
      if (progress) {
        progress(static_cast<int64_t>(offset), static_cast<int64_t>(num_bytes));
      }
    }
    offset = Aligned(offset);
  }
  RETURN_IF_ERROR(sender->Finish());
  if (tied) lm_head = embedding;
  device_memory_ = std::move(memory);
  checkpoint_ = {};
  copies_ = {};
  return Ok{};
}

}  // namespace winnow
