#include "base/uring.h"

#include <liburing.h>

#include <cerrno>
#include <cstring>

namespace winnow {

Result<std::unique_ptr<Uring>> Uring::Create(int max_transfers) {
  CHECK(max_transfers > 0, "max_transfers={}", max_transfers);
  auto ring = std::make_unique<io_uring>();
  const int error = io_uring_queue_init(static_cast<unsigned>(max_transfers),
                                        ring.get(), /*flags=*/0);
  if (error < 0) {
    return MakeError(ErrorCode::kUnsupported, "the kernel refuses io_uring: {}",
                     std::strerror(-error));
  }
  return std::unique_ptr<Uring>(new Uring(std::move(ring), max_transfers));
}

Uring::Uring(std::unique_ptr<io_uring> ring, int max_transfers)
    : ring_(std::move(ring)), max_transfers_(max_transfers) {}

Uring::~Uring() {
  CHECK(num_under_way_ == 0, "num_under_way={}", num_under_way_);
  io_uring_queue_exit(ring_.get());
}

void Uring::Submit(int fd, std::span<const BlockTransfer> transfers) {
  CHECK(num_under_way_ + std::ssize(transfers) <= max_transfers_,
        "under way={} more={} at most={}", num_under_way_, transfers.size(),
        max_transfers_);
  for (const BlockTransfer& transfer : transfers) {
    io_uring_sqe* entry = io_uring_get_sqe(ring_.get());
    CHECK(entry != nullptr, "under way={}", num_under_way_);
    const auto num_bytes = static_cast<unsigned>(transfer.bytes.size());
    const auto offset = static_cast<uint64_t>(transfer.offset);
    if (transfer.kind == BlockTransfer::Kind::kRead) {
      io_uring_prep_read(entry, fd, transfer.bytes.data(), num_bytes, offset);
    } else {
      io_uring_prep_write(entry, fd, transfer.bytes.data(), num_bytes, offset);
    }
    io_uring_sqe_set_data64(entry, transfer.tag);
    ++num_under_way_;
  }
  // Entries that the kernel has no memory for now stay in the ring, and go
  // with the next call: Collect submits what is left.
  const int submitted = io_uring_submit(ring_.get());
  CHECK(submitted >= 0 || submitted == -EAGAIN || submitted == -EBUSY ||
            submitted == -EINTR,
        "io_uring_submit: {}", std::strerror(-submitted));
}

size_t Uring::Collect(std::span<BlockCompletion> completions, bool wait) {
  size_t num_collected = 0;
  if (io_uring_sq_ready(ring_.get()) > 0) io_uring_submit(ring_.get());
  while (num_collected < completions.size() && num_under_way_ > 0) {
    io_uring_cqe* entry = nullptr;
    if (io_uring_peek_cqe(ring_.get(), &entry) != 0 || entry == nullptr) {
      if (!wait || num_collected > 0) break;
      const int waited = io_uring_submit_and_wait(ring_.get(), 1);
      CHECK(waited >= 0 || waited == -EINTR || waited == -EAGAIN ||
                waited == -EBUSY,
            "io_uring_submit_and_wait: {}", std::strerror(-waited));
      continue;
    }
    BlockCompletion& done = completions[num_collected++];
    done.tag = io_uring_cqe_get_data64(entry);
    done.num_bytes = entry->res < 0 ? 0 : entry->res;
    done.error = entry->res < 0 ? -entry->res : 0;
    io_uring_cqe_seen(ring_.get(), entry);
    --num_under_way_;
  }
  return num_collected;
}

}  // namespace winnow
