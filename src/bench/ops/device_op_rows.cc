#include "bench/ops/device_op_rows.h"

#include <algorithm>
#include <map>
#include <vector>

#include "bench/roofs/roof.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

Json RowOf(const DeviceOp& op, double seconds, double copy_share,
           double product_share) {
  return {{"verb", op.name},
          {"ms", seconds * 1e3},
          {"us", seconds * 1e6},
          {"bytes", op.bytes},
          {"flops", op.flops},
          {"gb_per_second", op.bytes / seconds / 1e9},
          {"gflops", op.flops / seconds / 1e9},
          {"share_of_read_roof", copy_share},
          {"share_of_product_roof", product_share},
          {"roof", op.product_bound ? "products" : "copy"},
          {"share_of_roof", op.product_bound ? product_share : copy_share}};
}

}  // namespace

Status DeviceOpRows::Keep(Json row) {
  rows_.push_back(std::move(row));
  return on_row_ ? on_row_(rows_.back()) : Status(Ok{});
}

Status DeviceOpRows::Add(const DeviceOp& op) {
  const auto enqueue = [&] {
    for (int call = 0; call < op.calls; ++call) op.run(call);
  };
  // Two ops of one name would share what was recorded.
  const std::string name = fmt::format("{} {}", ++num_recorded_, op.name);
  const auto once = [&] {
    return op.recorded ? RecordedSeconds(backend_, *op.queue, name, enqueue)
                       : EnqueuedSeconds(backend_, *op.queue, enqueue);
  };
  RETURN_IF_ERROR(once());  // To warm up, and to record.
  std::vector<double> all, copy_shares, product_shares;
  for (int round = 0; round < rounds_; ++round) {
    RETURN_IF_ERROR(roofs_.MeasureCopy());
    if (op.product_bound) RETURN_IF_ERROR(roofs_.MeasureProducts());
    ASSIGN_OR_RETURN(const double seconds, once());
    all.push_back(seconds / op.calls);
    copy_shares.push_back(op.bytes / all.back() / roofs_.bytes_per_second());
    product_shares.push_back(op.flops / all.back() / roofs_.flops_per_second());
  }
  return Keep(RowOf(op, Median(std::move(all)), Median(std::move(copy_shares)),
                    Median(std::move(product_shares))));
}

Status DeviceOpRows::AddLaunches(const DeviceOp& op) {
  std::map<std::string, std::vector<double>> rounds;
  for (int round = 0; round < rounds_; ++round) {
    ASSIGN_OR_RETURN(const std::vector<LaunchTime> times,
                     backend_.Profile(*op.queue, [&] {
                       for (int call = 0; call < op.calls; ++call) {
                         op.run(call);
                       }
                     }));
    std::map<std::string, double> sums;
    for (const LaunchTime& time : times) sums[time.name] += time.seconds;
    for (const auto& [name, sum] : sums) {
      rounds[name].push_back(sum / op.calls);
    }
  }
  if (rounds.size() < 2) return Ok{};  // There are no parts.
  if (!empty_) {
    ASSIGN_OR_RETURN(empty_, MeasureEmptyLaunch(backend_));
  }
  const double event = std::max(empty_->with_event - empty_->recorded, 0.0);
  for (const auto& [name, seconds] : rounds) {
    DeviceOp part = op;
    part.name = fmt::format("{}: {}", op.name, name);
    // What is scanned is read by the scores.
    if (!name.ends_with("scores")) part.bytes = part.flops = 0;
    const double with_event = Median(seconds);
    RETURN_IF_ERROR(AddSeconds(part, with_event));
    part.name += ", less an event";
    RETURN_IF_ERROR(AddSeconds(part, std::max(with_event - event, 1e-9)));
  }
  return Ok{};
}

Status DeviceOpRows::AddSeconds(const DeviceOp& op, double seconds) {
  return Keep(RowOf(op, seconds, op.bytes / seconds / roofs_.bytes_per_second(),
                    op.flops / seconds / roofs_.flops_per_second()));
}

}  // namespace winnow
