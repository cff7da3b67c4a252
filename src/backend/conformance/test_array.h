// TestArray: numbers on the host, and their way to a backend and back.
#ifndef WINNOW_BACKEND_CONFORMANCE_TEST_ARRAY_H_
#define WINNOW_BACKEND_CONFORMANCE_TEST_ARRAY_H_

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace winnow {

// Random numbers from a seed that a failing test prints.
class RandomSource {
 public:
  explicit RandomSource(uint64_t seed) : engine_(seed) {}
  // Uniform among [low, high].
  int64_t Between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  template <typename T>
  T Among(std::initializer_list<T> choices) {
    return choices.begin()[Between(0, std::ssize(choices) - 1)];
  }
  bool Chance(double p) { return std::bernoulli_distribution(p)(engine_); }
  double Normal() { return std::normal_distribution<double>()(engine_); }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

// Row-major numbers of any element type, held as float64, which holds each of
// them exactly.
struct TestArray {
  Dtype dtype = Dtype::kFloat32;
  std::vector<int64_t> shape;
  std::vector<double> values;

  TestArray() = default;
  TestArray(Dtype type, std::vector<int64_t> dims);

  int64_t dim(size_t i) const { return shape[i]; }
  double at(int64_t i, int64_t j) const {
    return values[static_cast<size_t>(i * shape[1] + j)];
  }
  double at(int64_t i, int64_t j, int64_t k) const {
    return values[static_cast<size_t>((i * shape[1] + j) * shape[2] + k)];
  }
  // [dim(2)]: those of (i, j).
  std::span<const double> numbers(int64_t i, int64_t j) const {
    return {values.data() + (i * shape[1] + j) * shape[2],
            static_cast<size_t>(shape[2])};
  }
};

TestArray RandomArray(Dtype dtype, std::vector<int64_t> shape,
                      RandomSource& random);
// The rows [begin, end) of the first dimension.
TestArray RowsOf(const TestArray& array, int64_t begin, int64_t end);
TestArray Int32Array(const std::vector<int32_t>& values);

// `value` as an element type holds it, and its bytes.
double RoundTo(Dtype dtype, double value);
void StoreElement(Dtype dtype, double value, std::byte* to);
double LoadElement(Dtype dtype, const std::byte* from);

// The bytes of memory that nobody has written: a NaN in every float type.
inline constexpr std::byte kPoison{0xff};

// A backend under test with the memory that a test gives it. Outputs start as
// poison, and so do the gaps between the rows of every array.
class TestDevice {
 public:
  explicit TestDevice(std::unique_ptr<Backend> backend);

  Backend& backend() { return *backend_; }
  Queue& queue() { return *queue_; }

  // `gap` numbers of poison after each row of every dimension but the last.
  View Upload(const TestArray& array, int64_t gap = 0);
  View Output(Dtype dtype, std::vector<int64_t> shape, int64_t gap = 0);
  // Reads back; fails the test where a gap has been written to.
  TestArray Download(const View& view);

  View UploadBytes(const std::vector<std::byte>& bytes);
  // To the tier of the host. REQUIRES: there are some.
  View UploadHostBytes(const std::vector<std::byte>& bytes);
  std::vector<std::byte> DownloadBytes(const View& bytes);

 private:
  View Place(Dtype dtype, const std::vector<int64_t>& shape, int64_t gap);
  void CopyAndWait(const View& from, const View& to);

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Queue> queue_;
  std::vector<Buffer> buffers_;
};

// A row of a table, without its first entries.
struct TableRow {
  int64_t num_left_out = 0;
  std::vector<uint32_t> entries;
};

// A table of these rows, the last one first, with some entries of `otherwise`
// before each and behind the last.
RowTable UploadRows(TestDevice& device, const std::vector<TableRow>& rows,
                    uint32_t otherwise);
RowTable UploadRows(TestDevice& device,
                    const std::vector<std::vector<uint32_t>>& rows,
                    uint32_t otherwise);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_TEST_ARRAY_H_
