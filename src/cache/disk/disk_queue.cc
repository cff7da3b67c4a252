#include "cache/disk/disk_queue.h"

#include <pthread.h>

#include <chrono>
#include <iterator>
#include <utility>

namespace winnow {

PieceQueue::PieceQueue(std::unique_ptr<PieceMover> mover, bool has_own_thread)
    : mover_(std::move(mover)) {
  if (!has_own_thread) return;
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "winnow-disk");
}

PieceQueue::~PieceQueue() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    is_ending_ = true;
  }
  has_work_.notify_one();
  thread_.join();
}

void PieceQueue::Submit(std::vector<PieceTransfer> transfers) {
  if (transfers.empty()) return;
  const std::scoped_lock lock(mutex_);
  num_open_ += std::ssize(transfers);
  if (!thread_.joinable()) {
    for (PieceTransfer& transfer : transfers) mover_->Add(std::move(transfer));
    return;
  }
  std::ranges::move(transfers, std::back_inserter(submitted_));
  has_work_.notify_one();
}

std::vector<PieceDone> PieceQueue::Take(bool wait) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) {
    std::vector<PieceDone> done;
    mover_->Pump(wait, done);
    num_open_ -= std::ssize(done);
    return done;
  }
  if (wait) {
    has_done_.wait(lock, [this] { return !done_.empty() || num_open_ == 0; });
  }
  return std::exchange(done_, {});
}

void PieceQueue::SetListener(std::function<void()> on_done) {
  const std::scoped_lock lock(mutex_);
  on_done_ = std::move(on_done);
}

void PieceQueue::Run() {
  std::vector<PieceDone> done;
  for (;;) {
    std::vector<PieceTransfer> taken;
    {
      std::unique_lock lock(mutex_);
      if (mover_->is_idle()) {
        has_work_.wait(lock,
                       [this] { return is_ending_ || !submitted_.empty(); });
      }
      if (is_ending_) return;
      taken.swap(submitted_);
    }
    const auto start = std::chrono::steady_clock::now();
    for (PieceTransfer& transfer : taken) mover_->Add(std::move(transfer));
    mover_->Pump(/*wait=*/true, done);
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    for (PieceDone& piece : done) {
      piece.seconds = took.count() / static_cast<double>(done.size());
    }
    {
      const std::scoped_lock lock(mutex_);
      num_open_ -= std::ssize(done);
      std::ranges::move(done, std::back_inserter(done_));
      if (on_done_ && !done_.empty()) on_done_();
    }
    done.clear();
    has_done_.notify_one();
  }
}

}  // namespace winnow
