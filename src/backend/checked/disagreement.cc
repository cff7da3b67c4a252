#include "backend/checked/disagreement.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace winnow {
namespace {

// Of a row's greatest number.
constexpr double kFloatShare = 1.0 / 64;
// Of a list's picks, how many may be others, and how many always.
constexpr double kPickShare = 1.0 / 8;
constexpr int kOtherPicks = 1;
constexpr std::chrono::minutes kTimeout(5);

bool IsFloat(Dtype dtype) {
  return dtype == Dtype::kFloat32 || dtype == Dtype::kBFloat16 ||
         dtype == Dtype::kFloat16;
}

template <typename T>
double Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<double>(static_cast<float>(value));
  }
}

double ElementAt(Dtype dtype, const std::byte* data, int64_t index) {
  const std::byte* from = data + index * DtypeBytes(dtype);
  switch (dtype) {
    case Dtype::kFloat32:
      return Load<float>(from);
    case Dtype::kBFloat16:
      return Load<BFloat16>(from);
    case Dtype::kFloat16:
      return Load<Float16>(from);
    case Dtype::kInt64:
      return Load<int64_t>(from);
    case Dtype::kInt32:
      return Load<int32_t>(from);
    case Dtype::kUInt32:
      return Load<uint32_t>(from);
    case Dtype::kUInt16:
      return Load<uint16_t>(from);
    case Dtype::kUInt8:
      return Load<uint8_t>(from);
    case Dtype::kFloat8E4M3:
      return Load<Float8E4M3>(from);
  }
  CHECK(false, "dtype={}", static_cast<int>(dtype));
}

// Where row `row` of a view begins, in elements; rows are of the last
// dimension.
int64_t RowOffset(const View& view, int64_t row) {
  int64_t offset = 0;
  for (int i = view.rank - 2; i >= 0; --i) {
    offset += row % view.dim(i) * view.stride[static_cast<size_t>(i)];
    row /= view.dim(i);
  }
  return offset;
}

int64_t NumRows(const View& view) {
  const int64_t size = view.rank == 0 ? 0 : view.dim(view.rank - 1);
  return size == 0 ? 0 : view.num_elements() / size;
}

}  // namespace

void Disagreement::Begin(std::string_view op, Queue& queue) {
  op_ = op;
  queue_ = &queue;
  ++num_ops_;
}

template <typename... Args>
void Disagreement::Report(fmt::format_string<Args...> format, Args&&... args) {
  if (!first_.empty()) return;
  first_ = fmt::format("op {}, {}: {}", num_ops_, op_,
                       fmt::format(format, std::forward<Args>(args)...));
}

std::vector<std::byte> Disagreement::Fetch(const View& view) {
  if (view.empty() || NumRows(view) == 0) return {};
  const int64_t elements =
      RowOffset(view, NumRows(view) - 1) + view.dim(view.rank - 1);
  std::vector<std::byte> bytes(
      static_cast<size_t>(elements * DtypeBytes(view.dtype)));
  const auto size = static_cast<int64_t>(bytes.size());
  subject_.Copy(*queue_, MakeView(view.data, Dtype::kUInt8, {size}),
                MakeView(bytes.data(), Dtype::kUInt8, {size}));
  const Status done = subject_.Wait(subject_.Record(*queue_), kTimeout);
  if (done.ok()) return bytes;
  Report("{}", done.error().message);
  return {};
}

void Disagreement::CompareRow(std::string_view what, const View& view,
                              int64_t row, const std::byte* got) {
  const int64_t size = view.dim(view.rank - 1);
  const std::byte* expected =
      twins_.Of(view).data + RowOffset(view, row) * DtypeBytes(view.dtype);
  double greatest = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double value = std::abs(ElementAt(view.dtype, expected, i));
    if (std::isfinite(value)) greatest = std::max(greatest, value);
  }
  const double allowed = IsFloat(view.dtype) ? greatest * kFloatShare : 0;
  for (int64_t i = 0; i < size; ++i) {
    const double a = ElementAt(view.dtype, got, i);
    const double b = ElementAt(view.dtype, expected, i);
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                      std::abs(a - b) <= allowed;
    if (same) continue;
    Report("{} {} row {} element {} is {}, must be {} within {}", what,
           ToString(view), row, i, a, b, allowed);
    return;
  }
}

void Disagreement::CompareView(std::string_view what, const View& view) {
  const std::vector<std::byte> bytes = Fetch(view);
  if (bytes.empty()) return;
  const int element_bytes = DtypeBytes(view.dtype);
  const auto row_bytes =
      static_cast<size_t>(view.dim(view.rank - 1) * element_bytes);
  std::byte* twin = twins_.Of(view).data;
  for (int64_t row = 0; row < NumRows(view); ++row) {
    const int64_t offset = RowOffset(view, row) * element_bytes;
    if (first_.empty()) CompareRow(what, view, row, bytes.data() + offset);
    std::memcpy(twin + offset, bytes.data() + offset, row_bytes);
  }
}

void Disagreement::ComparePiece(std::string_view what, const std::byte* inside,
                                Dtype dtype) {
  View piece = twins_.PieceAround(inside);
  if (piece.empty()) return;
  constexpr int64_t kRowElements = 64;
  const int64_t rows =
      piece.num_elements() / (kRowElements * DtypeBytes(dtype));
  CompareView(what, MakeView(piece.data, dtype, {rows, kRowElements}));
}

void Disagreement::TakeOver(const std::byte* inside) {
  const View piece = twins_.PieceAround(inside);
  const std::vector<std::byte> bytes = Fetch(piece);
  if (bytes.empty()) return;
  std::memcpy(twins_.Of(piece).data, bytes.data(), bytes.size());
}

void Disagreement::CompareList(const PickLists& got, const PickLists& twin,
                               int64_t row, int64_t list) {
  const int32_t count = got.NumPicks(row, list);
  if (count != twin.NumPicks(row, list)) {
    Report("row {} list {} has {} picks, must have {}", row, list, count,
           twin.NumPicks(row, list));
    return;
  }
  if (count == kEveryPage) return;
  const Pick* expected = twin.List(row, list);
  int num_others = 0;
  for (int32_t i = 0; i < count; ++i) {
    const Pick& pick = got.List(row, list)[i];
    num_others +=
        std::find(expected, expected + count, pick) == expected + count;
  }
  if (num_others > kOtherPicks + kPickShare * count) {
    Report("row {} list {}: {} of {} picks are others", row, list, num_others,
           count);
  }
}

void Disagreement::ComparePicks(const PickLists& lists) {
  PickLists got = lists;
  std::vector<std::byte> bytes[6];
  View* views[] = {&got.picks,    &got.num_picks, &got.num_lists,
                   &got.num_kept, &got.estimates, &got.num_estimates};
  for (size_t i = 0; i < std::size(bytes); ++i) {
    bytes[i] = Fetch(*views[i]);
    if (!bytes[i].empty()) views[i]->data = bytes[i].data();
  }
  if (bytes[2].empty()) return;
  const PickLists twin = twins_.Of(lists);
  for (int64_t row = lists.first_row;
       first_.empty() && row < lists.first_row + lists.num_rows(); ++row) {
    const int32_t num_lists = got.NumLists(row);
    if (num_lists != twin.NumLists(row)) {
      Report("row {} has {} lists, must have {}", row, num_lists,
             twin.NumLists(row));
      break;
    }
    for (int32_t list = 0; list < num_lists; ++list) {
      CompareList(got, twin, row, list);
    }
  }
  // The choices of the subject go on.
  const View* targets[] = {&twin.picks,     &twin.num_picks,
                           &twin.num_lists, &twin.num_kept,
                           &twin.estimates, &twin.num_estimates};
  for (size_t i = 0; i < std::size(bytes); ++i) {
    if (!bytes[i].empty()) {
      std::memcpy(targets[i]->data, bytes[i].data(), bytes[i].size());
    }
  }
}

}  // namespace winnow
