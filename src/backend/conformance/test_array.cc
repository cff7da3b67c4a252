#include "backend/conformance/test_array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace winnow {
namespace {

int64_t NumElements(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

// Where element `index` (row-major) of a view stands, in elements.
int64_t OffsetOf(const View& view, int64_t index) {
  int64_t offset = 0;
  for (int i = view.rank - 1; i >= 0; --i) {
    const auto d = static_cast<size_t>(i);
    offset += index % view.shape[d] * view.stride[d];
    index /= view.shape[d];
  }
  return offset;
}

// Elements from the first to behind the last gap.
int64_t SpanOf(const View& view) {
  return view.rank == 0 ? 1 : view.shape[0] * view.stride[0];
}

View BytesOf(const View& view) {
  return MakeView(view.data, Dtype::kUInt8,
                  {SpanOf(view) * DtypeBytes(view.dtype)});
}

}  // namespace

TestArray::TestArray(Dtype type, std::vector<int64_t> dims)
    : dtype(type),
      shape(std::move(dims)),
      values(static_cast<size_t>(NumElements(shape))) {}

TestArray RandomArray(Dtype dtype, std::vector<int64_t> shape,
                      RandomSource& random) {
  TestArray array(dtype, std::move(shape));
  for (double& value : array.values) value = RoundTo(dtype, random.Normal());
  return array;
}

TestArray RowsOf(const TestArray& array, int64_t begin, int64_t end) {
  std::vector<int64_t> shape = array.shape;
  const int64_t row_size =
      shape[0] == 0 ? 0 : std::ssize(array.values) / shape[0];
  shape[0] = end - begin;
  TestArray rows(array.dtype, shape);
  std::copy(array.values.begin() + begin * row_size,
            array.values.begin() + end * row_size, rows.values.begin());
  return rows;
}

TestArray Int32Array(const std::vector<int32_t>& values) {
  TestArray array(Dtype::kInt32, {std::ssize(values)});
  array.values.assign(values.begin(), values.end());
  return array;
}

double RoundTo(Dtype dtype, double value) {
  std::byte bytes[8];
  StoreElement(dtype, value, bytes);
  return LoadElement(dtype, bytes);
}

void StoreElement(Dtype dtype, double value, std::byte* to) {
  const auto store = [&](auto element) {
    std::memcpy(to, &element, sizeof(element));
  };
  switch (dtype) {
    case Dtype::kFloat32:
      return store(static_cast<float>(value));
    case Dtype::kBFloat16:
      return store(BFloat16(static_cast<float>(value)));
    case Dtype::kFloat16:
      return store(Float16(static_cast<float>(value)));
    case Dtype::kInt32:
      return store(static_cast<int32_t>(value));
    case Dtype::kUInt32:
      return store(static_cast<uint32_t>(value));
    case Dtype::kInt64:
      return store(static_cast<int64_t>(value));
    case Dtype::kUInt16:
      return store(static_cast<uint16_t>(value));
    case Dtype::kUInt8:
      return store(static_cast<uint8_t>(value));
    default:
      CHECK(false, "dtype={}", DtypeName(dtype));
  }
}

double LoadElement(Dtype dtype, const std::byte* from) {
  const auto load = [&](auto element) {
    std::memcpy(&element, from, sizeof(element));
    return element;
  };
  switch (dtype) {
    case Dtype::kFloat32:
      return load(float());
    case Dtype::kBFloat16:
      return static_cast<float>(load(BFloat16()));
    case Dtype::kFloat16:
      return static_cast<float>(load(Float16()));
    case Dtype::kInt32:
      return load(int32_t());
    case Dtype::kUInt32:
      return load(uint32_t());
    case Dtype::kInt64:
      return static_cast<double>(load(int64_t()));
    case Dtype::kUInt16:
      return load(uint16_t());
    case Dtype::kUInt8:
      return load(uint8_t());
    default:
      CHECK(false, "dtype={}", DtypeName(dtype));
  }
}

TestDevice::TestDevice(std::unique_ptr<Backend> backend)
    : backend_(std::move(backend)), queue_(backend_->MakeQueue()) {}

View TestDevice::Place(Dtype dtype, const std::vector<int64_t>& shape,
                       int64_t gap) {
  View view;
  view.dtype = dtype;
  view.rank = static_cast<int>(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    view.shape[i] = shape[i];
    view.stride[i] = stride;
    stride = stride * shape[i] + gap;
  }
  // One element at least, so that an array of no rows still has an address.
  const int64_t num_bytes =
      std::max<int64_t>(1, SpanOf(view)) * DtypeBytes(dtype);
  Result<Buffer> buffer = backend_->Allocate(
      Tier::kDevice, static_cast<size_t>(num_bytes), "a test's array");
  CHECK(buffer.ok(), "{}", buffer.error().message);
  view.data = buffer->data();
  buffers_.push_back(std::move(buffer).value());
  return view;
}

void TestDevice::CopyAndWait(const View& from, const View& to) {
  backend_->Copy(*queue_, from, to);
  const Status done =
      backend_->Wait(backend_->Record(*queue_), std::chrono::seconds(60));
  CHECK(done.ok(), "{}", done.error().message);
}

View TestDevice::Upload(const TestArray& array, int64_t gap) {
  const View view = Place(array.dtype, array.shape, gap);
  const View bytes = BytesOf(view);
  std::vector<std::byte> image(static_cast<size_t>(bytes.dim(0)), kPoison);
  const int element_bytes = DtypeBytes(array.dtype);
  for (int64_t i = 0; i < std::ssize(array.values); ++i) {
    StoreElement(array.dtype, array.values[static_cast<size_t>(i)],
                 image.data() + OffsetOf(view, i) * element_bytes);
  }
  CopyAndWait(MakeView(image.data(), Dtype::kUInt8, {bytes.dim(0)}), bytes);
  return view;
}

View TestDevice::Output(Dtype dtype, std::vector<int64_t> shape, int64_t gap) {
  const View view = Place(dtype, shape, gap);
  const View bytes = BytesOf(view);
  const std::vector<std::byte> image(static_cast<size_t>(bytes.dim(0)),
                                     kPoison);
  CopyAndWait(MakeView(image.data(), Dtype::kUInt8, {bytes.dim(0)}), bytes);
  return view;
}

TestArray TestDevice::Download(const View& view) {
  std::vector<std::byte> image = DownloadBytes(BytesOf(view));
  TestArray array(
      view.dtype,
      std::vector<int64_t>(view.shape.begin(), view.shape.begin() + view.rank));
  const auto element_bytes = static_cast<size_t>(DtypeBytes(view.dtype));
  for (int64_t i = 0; i < view.num_elements(); ++i) {
    std::byte* from =
        image.data() + static_cast<size_t>(OffsetOf(view, i)) * element_bytes;
    array.values[static_cast<size_t>(i)] = LoadElement(view.dtype, from);
    std::memset(from, static_cast<int>(kPoison), element_bytes);
  }
  EXPECT_EQ(
      std::ranges::count_if(image, [](std::byte b) { return b != kPoison; }), 0)
      << "bytes between the rows were written to: " << ToString(view);
  return array;
}

View TestDevice::UploadBytes(const std::vector<std::byte>& bytes) {
  const View view = Place(Dtype::kUInt8, {std::ssize(bytes)}, 0);
  CopyAndWait(MakeView(bytes.data(), Dtype::kUInt8, {std::ssize(bytes)}), view);
  return view;
}

View TestDevice::UploadHostBytes(const std::vector<std::byte>& bytes) {
  Result<Buffer> buffer =
      backend_->Allocate(Tier::kHost, bytes.size(), "a test's host memory");
  CHECK(buffer.ok(), "{}", buffer.error().message);
  std::memcpy(buffer->data(), bytes.data(), bytes.size());
  const View view = buffer->At(0, Dtype::kUInt8, {std::ssize(bytes)});
  buffers_.push_back(std::move(buffer).value());
  return view;
}

std::vector<std::byte> TestDevice::DownloadBytes(const View& bytes) {
  std::vector<std::byte> image(static_cast<size_t>(bytes.dim(0)));
  CopyAndWait(bytes, MakeView(image.data(), Dtype::kUInt8, {bytes.dim(0)}));
  return image;
}

RowTable UploadRows(TestDevice& device, const std::vector<TableRow>& rows,
                    uint32_t otherwise) {
  std::vector<int32_t> first(rows.size());
  TestArray entries(Dtype::kUInt32, {0});
  entries.values.assign(3, otherwise);
  for (size_t r = rows.size(); r-- > 0;) {
    const TableRow& row = rows[r];
    first[r] =
        static_cast<int32_t>(std::ssize(entries.values) - row.num_left_out);
    entries.values.insert(entries.values.end(), row.entries.begin(),
                          row.entries.end());
    entries.values.resize(entries.values.size() + 1 + r % 3, otherwise);
  }
  entries.shape = {std::ssize(entries.values)};
  return {.first = device.Upload(Int32Array(first)),
          .entries = device.Upload(entries)};
}

RowTable UploadRows(TestDevice& device,
                    const std::vector<std::vector<uint32_t>>& rows,
                    uint32_t otherwise) {
  std::vector<TableRow> table;
  for (const auto& row : rows) table.push_back({.entries = row});
  return UploadRows(device, table, otherwise);
}

}  // namespace winnow
