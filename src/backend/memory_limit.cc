#include "backend/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/forwarding.h"
#include "base/size_text.h"

namespace winnow {
namespace {

// Of what is free: the driver takes some for itself afterwards.
constexpr double kShareOfFree = 0.98;

// What is taken, by purpose in the order of their first. Shared with the
// buffers, which may outlive the backend.
class Ledger {
 public:
  void Add(const std::string& purpose, int64_t num_bytes) {
    total_bytes_ += num_bytes;
    for (auto& [name, bytes] : entries_) {
      if (name != purpose) continue;
      bytes += num_bytes;
      return;
    }
    entries_.emplace_back(purpose, num_bytes);
  }
  int64_t total_bytes() const { return total_bytes_; }
  // "weights 15 GiB + KV pool 2 GiB = 17 GiB"
  std::string Sum() const {
    std::string sum;
    for (const auto& [name, bytes] : entries_) {
      if (bytes == 0) continue;
      sum += fmt::format("{}{} {}", sum.empty() ? "" : " + ", name,
                         FormatBytes(bytes));
    }
    return sum.empty() ? "nothing"
                       : fmt::format("{} = {}", sum, FormatBytes(total_bytes_));
  }

 private:
  std::vector<std::pair<std::string, int64_t>> entries_;
  int64_t total_bytes_ = 0;
};

class LimitedBackend final : public ForwardingBackend {
 public:
  // `bound` says in words where the limit is from.
  LimitedBackend(std::unique_ptr<Backend> backend, int64_t limit_bytes,
                 const MemoryLimitOptions& options, std::string bound)
      : ForwardingBackend(std::move(backend)),
        attributes_(real().attributes()),
        limit_bytes_(limit_bytes),
        bound_(std::move(bound)) {
    ledger_->Add("workspace of the ops", options.workspace_bytes);
    ledger_->Add("graphs", options.graph_bytes);
    attributes_.available_bytes = limit_bytes - ledger_->total_bytes();
  }

  const BackendAttributes& attributes() const override { return attributes_; }

  Result<Buffer> Allocate(Tier tier, size_t num_bytes,
                          std::string_view purpose) override {
    if (tier != Tier::kDevice) {
      return real().Allocate(tier, num_bytes, purpose);
    }
    const auto asked = static_cast<int64_t>(num_bytes);
    if (asked > limit_bytes_ - ledger_->total_bytes()) {
      return MakeError(ErrorCode::kResourceExhausted,
                       "{}: {} of device memory asked for beside {}; at most "
                       "{} may be taken ({})",
                       purpose, FormatBytes(asked), ledger_->Sum(),
                       FormatBytes(limit_bytes_), bound_);
    }
    Result<Buffer> given = real().Allocate(tier, num_bytes, purpose);
    if (!given.ok()) {
      return MakeError(given.error().code, "{}, beside {}",
                       given.error().message, ledger_->Sum());
    }
    const std::string name(purpose);
    ledger_->Add(name, asked);
    auto owner = std::make_shared<Buffer>(std::move(*given));
    return Buffer(tier, owner->data(), num_bytes,
                  [owner, name, asked, ledger = ledger_](std::byte*, size_t) {
                    ledger->Add(name, -asked);
                  });
  }

 private:
  BackendAttributes attributes_;
  const int64_t limit_bytes_;
  const std::string bound_;
  const std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
};

}  // namespace

Result<std::unique_ptr<Backend>> LimitMemory(
    std::unique_ptr<Backend> backend, const MemoryLimitOptions& options) {
  const BackendAttributes& has = backend->attributes();
  const int64_t free_bytes = has.available_bytes;
  const int64_t workspace_bytes = options.workspace_bytes;
  const int64_t own_bytes = workspace_bytes + options.graph_bytes;
  int64_t limit_bytes = 0;
  std::string bound;
  if (options.utilization) {
    limit_bytes = static_cast<int64_t>(*options.utilization *
                                       static_cast<double>(has.memory_bytes));
    bound = fmt::format("gpu-memory-utilization {} of {}", *options.utilization,
                        FormatBytes(has.memory_bytes));
    if (limit_bytes - workspace_bytes > free_bytes) {
      return MakeError(ErrorCode::kResourceExhausted,
                       "{}: {} is {}; free are {} + {} that the ops have taken",
                       has.name, bound, FormatBytes(limit_bytes),
                       FormatBytes(free_bytes), FormatBytes(workspace_bytes));
    }
  } else {
    limit_bytes =
        workspace_bytes +
        static_cast<int64_t>(kShareOfFree * static_cast<double>(free_bytes));
    bound = fmt::format("{} were free", FormatBytes(free_bytes));
  }
  if (limit_bytes < own_bytes) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{}: at most {} may be taken ({}), less than workspace of "
                     "the ops {} + graphs {}",
                     has.name, FormatBytes(limit_bytes), bound,
                     FormatBytes(workspace_bytes),
                     FormatBytes(options.graph_bytes));
  }
  return std::unique_ptr<Backend>(std::make_unique<LimitedBackend>(
      std::move(backend), limit_bytes, options, std::move(bound)));
}

}  // namespace winnow
