#include "model/weights/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "model/config/json_fields.h"

namespace winnow {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors are little-endian and read in place");

constexpr size_t kLengthBytes = 8;
// The reference implementation's limit.
constexpr size_t kMaxHeaderBytes = 100'000'000;
constexpr int kMaxHeaderDepth = 4;
// Twice what a View can hold.
constexpr size_t kMaxStoredRank = 8;
constexpr int64_t kMaxDimension = int64_t{1} << 48;

struct StoredDtype {
  std::string_view name;
  int64_t element_bytes;
};

// Whole-byte dtypes of the format. What a model can use of them is decided
// where the weights are mapped.
constexpr std::array<StoredDtype, 16> kStoredDtypes = {{{"BOOL", 1},
                                                        {"U8", 1},
                                                        {"I8", 1},
                                                        {"F8_E5M2", 1},
                                                        {"F8_E4M3", 1},
                                                        {"F8_E8M0", 1},
                                                        {"I16", 2},
                                                        {"U16", 2},
                                                        {"F16", 2},
                                                        {"BF16", 2},
                                                        {"I32", 4},
                                                        {"U32", 4},
                                                        {"F32", 4},
                                                        {"F64", 8},
                                                        {"I64", 8},
                                                        {"U64", 8}}};

// Bytes that the tensor needs; nothing where they exceed what 63 bits count.
std::optional<int64_t> NeededBytes(const std::vector<int64_t>& shape,
                                   int64_t element_bytes) {
  int64_t product = element_bytes;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return product;
}

// What follows the header, and where in the file that is.
struct DataPart {
  std::span<const std::byte> bytes;
  int64_t begin_byte = 0;
};

// The span of the data that the tensor names, [begin, end].
Result<std::vector<int64_t>> ReadOffsets(const JsonFields& fields,
                                         const std::string& name,
                                         const DataPart& data) {
  // Far beyond any file, and near no overflow.
  constexpr int64_t kMaxEnd = int64_t{1} << 62;
  const auto data_bytes = static_cast<int64_t>(data.bytes.size());
  ASSIGN_OR_RETURN(std::vector<int64_t> offsets,
                   fields.Integers("data_offsets", {0, kMaxEnd}));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return fields.Unexpected(
        "data_offsets", fmt::format("[begin, end], begin <= end <= {} (the "
                                    "bytes that follow the header)",
                                    data_bytes));
  }
  if (offsets[1] > data_bytes) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: tensor {} ends at byte {}, the file at byte {}: it "
                     "is cut off",
                     fields.file(), Printable(name),
                     data.begin_byte + offsets[1],
                     data.begin_byte + data_bytes);
  }
  return offsets;
}

// Reads one entry of the header.
Result<StoredTensor> ReadTensor(const JsonFields& header,
                                const std::string& name, const DataPart& data) {
  ASSIGN_OR_RETURN(const JsonFields fields, header.Object(name));
  StoredTensor tensor;
  tensor.name = name;
  ASSIGN_OR_RETURN(tensor.dtype, fields.Text("dtype"));
  const auto* dtype =
      std::find_if(kStoredDtypes.begin(), kStoredDtypes.end(),
                   [&](const auto& d) { return d.name == tensor.dtype; });
  if (dtype == kStoredDtypes.end()) {
    std::vector<std::string_view> names;
    for (const StoredDtype& d : kStoredDtypes) names.push_back(d.name);
    return fields.Unexpected("dtype",
                             fmt::format("one of {}", fmt::join(names, ", ")),
                             ErrorCode::kUnsupported);
  }
  if (!fields.Has("shape")) return fields.Unexpected("shape", "a list");
  ASSIGN_OR_RETURN(tensor.shape, fields.Integers("shape", {0, kMaxDimension}));
  if (tensor.shape.size() > kMaxStoredRank) {
    return fields.Unexpected(
        "shape", fmt::format("a list of at most {} integers", kMaxStoredRank));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> offsets,
                   ReadOffsets(fields, name, data));
  const std::optional<int64_t> needed =
      NeededBytes(tensor.shape, dtype->element_bytes);
  if (needed != offsets[1] - offsets[0]) {
    return fields.Unexpected(
        "data_offsets",
        fmt::format("{} bytes apart for {} [{}]",
                    needed ? std::to_string(*needed) : "more than 2^63",
                    tensor.dtype, fmt::join(tensor.shape, ", ")));
  }
  tensor.bytes = data.bytes.subspan(static_cast<size_t>(offsets[0]),
                                    static_cast<size_t>(*needed));
  return tensor;
}

// Checks that `tensors`, ascending, cover `data` exactly.
Status CheckCoverage(std::span<const StoredTensor> tensors,
                     std::span<const std::byte> data, const std::string& file) {
  const std::byte* covered = data.data();
  const StoredTensor* last = nullptr;
  for (const StoredTensor& tensor : tensors) {
    const std::byte* begin = tensor.bytes.data();
    if (begin < covered) {
      return MakeError(
          ErrorCode::kCorrupt, "{}: tensors {} and {} overlap by {} bytes",
          file, Printable(last->name), Printable(tensor.name), covered - begin);
    }
    if (begin > covered) {
      return MakeError(ErrorCode::kCorrupt,
                       "{}: {} bytes before tensor {} belong to no tensor",
                       file, begin - covered, Printable(tensor.name));
    }
    covered = begin + tensor.bytes.size();
    last = &tensor;
  }
  const size_t rest = data.size() - static_cast<size_t>(covered - data.data());
  if (rest != 0) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: the last {} bytes belong to no tensor", file, rest);
  }
  return Ok{};
}

constexpr std::string_view kMetadata = "__metadata__";

// A file's JSON, and what follows it.
struct Header {
  JsonFields fields;
  DataPart data;
};

Result<Header> ParseHeader(std::span<const std::byte> file_bytes,
                           const std::string& file) {
  if (file_bytes.size() < kLengthBytes) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: a safetensors file has at least {} bytes, this one "
                     "{}",
                     file, kLengthBytes, file_bytes.size());
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file_bytes.data(), kLengthBytes);
  const size_t most =
      std::min(kMaxHeaderBytes, file_bytes.size() - kLengthBytes);
  if (header_bytes > most) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: safetensors header length must be at most {} bytes "
                     "in a file of {}, is {}",
                     file, most, file_bytes.size(), header_bytes);
  }
  const auto header_size = static_cast<size_t>(header_bytes);
  const std::string_view text(
      reinterpret_cast<const char*>(file_bytes.data()) + kLengthBytes,
      header_size);
  const JsonLimits limits = {.max_bytes = kMaxHeaderBytes,
                             .max_depth = kMaxHeaderDepth};
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Parse(text, file, limits));
  const size_t begin = kLengthBytes + header_size;
  return Header{std::move(fields),
                {.bytes = file_bytes.subspan(begin),
                 .begin_byte = static_cast<int64_t>(begin)}};
}

}  // namespace

Result<std::vector<StoredTensor>> ParseSafetensors(
    std::span<const std::byte> file_bytes, const std::string& file) {
  ASSIGN_OR_RETURN(const Header header, ParseHeader(file_bytes, file));
  std::vector<StoredTensor> tensors;
  for (const std::string& name : header.fields.Names()) {
    if (name == kMetadata) continue;
    ASSIGN_OR_RETURN(StoredTensor tensor,
                     ReadTensor(header.fields, name, header.data));
    tensors.push_back(std::move(tensor));
  }
  // Empty tensors stand before the one that begins where they do.
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.bytes.data(), a.bytes.size()) <
           std::make_pair(b.bytes.data(), b.bytes.size());
  });
  RETURN_IF_ERROR(CheckCoverage(tensors, header.data.bytes, file));
  return tensors;
}

Result<std::string> ReadSafetensorsMetadata(
    std::span<const std::byte> file_bytes, const std::string& file,
    const std::string& name) {
  ASSIGN_OR_RETURN(const Header header, ParseHeader(file_bytes, file));
  if (!header.fields.Has(kMetadata)) return std::string();
  ASSIGN_OR_RETURN(const JsonFields metadata, header.fields.Object(kMetadata));
  if (!metadata.Has(name)) return std::string();
  return metadata.Text(name);
}

}  // namespace winnow
