#include "bench/roofs/bench_memory.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace winnow {
namespace {

constexpr std::chrono::minutes kTimeout(10);
constexpr int64_t kBlockElements = 2'000'003;

// `bytes` of `view`, from its `first` byte on.
View BytesOf(const View& view, int64_t first, int64_t num_bytes) {
  return MakeView(view.data + first, Dtype::kUInt8, {num_bytes});
}

template <typename T>
std::vector<std::byte> RandomBlock(int64_t num_elements) {
  std::minstd_rand random(7);
  std::vector<std::byte> block(static_cast<size_t>(num_elements) * sizeof(T));
  for (size_t at = 0; at < block.size(); at += sizeof(T)) {
    const T value(static_cast<float>(random()) / 0x1p30f - 1.0f);
    std::memcpy(block.data() + at, &value, sizeof(T));
  }
  return block;
}

std::vector<std::byte> RandomBlock(Dtype dtype, int64_t num_elements) {
  switch (dtype) {
    case Dtype::kBFloat16:
      return RandomBlock<BFloat16>(num_elements);
    case Dtype::kFloat16:
      return RandomBlock<Float16>(num_elements);
    default:
      CHECK(dtype == Dtype::kFloat32, "random numbers of {}", DtypeName(dtype));
      return RandomBlock<float>(num_elements);
  }
}

}  // namespace

Result<View> BenchMemory::Take(Dtype dtype,
                               std::initializer_list<int64_t> shape) {
  int64_t num_bytes = DtypeBytes(dtype);
  for (const int64_t size : shape) num_bytes *= size;
  ASSIGN_OR_RETURN(
      Buffer buffer,
      backend_.Allocate(Tier::kDevice, static_cast<size_t>(num_bytes),
                        "a measurement"));
  const View view = buffer.At(0, dtype, shape);
  buffers_.push_back(std::move(buffer));
  return view;
}

Result<View> BenchMemory::TakeRandom(Dtype dtype,
                                     std::initializer_list<int64_t> shape) {
  ASSIGN_OR_RETURN(const View view, Take(dtype, shape));
  const int64_t total = view.num_bytes();
  const std::vector<std::byte> block =
      RandomBlock(dtype, std::min(view.num_elements(), kBlockElements));
  RETURN_IF_ERROR(Upload(block, view));
  // What is there doubles, so that many gigabytes are a few copies.
  for (int64_t done = std::ssize(block); done < total; done *= 2) {
    const int64_t count = std::min(done, total - done);
    backend_.Copy(*queue_, BytesOf(view, 0, count), BytesOf(view, done, count));
  }
  RETURN_IF_ERROR(Wait());
  return view;
}

Result<View> BenchMemory::TakeIntegers(std::span<const int32_t> values) {
  ASSIGN_OR_RETURN(const View view, Take(Dtype::kInt32, {std::ssize(values)}));
  RETURN_IF_ERROR(Upload(std::as_bytes(values), view));
  return view;
}

Result<View> BenchMemory::TakeIndices(std::span<const uint32_t> values,
                                      std::initializer_list<int64_t> shape) {
  ASSIGN_OR_RETURN(const View view, Take(Dtype::kUInt32, shape));
  RETURN_IF_ERROR(Upload(std::as_bytes(values), view));
  return view;
}

Result<RowTable> BenchMemory::TakeRows(std::span<const uint32_t> entries,
                                       int64_t width) {
  std::vector<int32_t> first;
  for (int64_t at = 0; at < std::ssize(entries); at += width) {
    first.push_back(static_cast<int32_t>(at));
  }
  RowTable table;
  ASSIGN_OR_RETURN(table.first, TakeIntegers(first));
  ASSIGN_OR_RETURN(table.entries, TakeIndices(entries, {std::ssize(entries)}));
  return table;
}

Result<View> BenchMemory::TakeFloats(std::span<const float> values,
                                     std::initializer_list<int64_t> shape) {
  ASSIGN_OR_RETURN(const View view, Take(Dtype::kFloat32, shape));
  RETURN_IF_ERROR(Upload(std::as_bytes(values), view));
  return view;
}

Result<View> BenchMemory::TakeBytes(std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(const View view, Take(Dtype::kUInt8, {std::ssize(bytes)}));
  RETURN_IF_ERROR(Upload(bytes, view));
  return view;
}

Result<std::vector<std::byte>> BenchMemory::Download(const View& view) {
  const int64_t num_bytes = view.num_bytes();
  ASSIGN_OR_RETURN(
      const Buffer host,
      backend_.Allocate(Tier::kHost, static_cast<size_t>(num_bytes),
                        "a measurement, host"));
  backend_.Copy(*queue_, BytesOf(view, 0, num_bytes),
                host.At(0, Dtype::kUInt8, {num_bytes}));
  RETURN_IF_ERROR(Wait());
  return std::vector<std::byte>(host.data(), host.data() + num_bytes);
}

Status BenchMemory::Upload(std::span<const std::byte> bytes, const View& to) {
  ASSIGN_OR_RETURN(
      const Buffer host,
      backend_.Allocate(Tier::kHost, bytes.size(), "a measurement, host"));
  std::ranges::copy(bytes, host.data());
  const int64_t num_bytes = std::ssize(bytes);
  backend_.Copy(*queue_, host.At(0, Dtype::kUInt8, {num_bytes}),
                BytesOf(to, 0, num_bytes));
  return Wait();
}

Status BenchMemory::Wait() {
  return backend_.Wait(backend_.Record(*queue_), kTimeout);
}

}  // namespace winnow
