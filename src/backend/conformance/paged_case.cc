#include "backend/conformance/paged_case.h"

#include <algorithm>
#include <numeric>

namespace winnow {

PagedCase::PagedCase(const KvShape& shape, std::vector<RequestRows> requests,
                     RandomSource& random)
    : shape_(shape),
      requests_(std::move(requests)),
      format_(MakeHeadBlockFormat(shape.dtype, shape.k_dim, shape.v_dim)) {
  int64_t num_pages = 0;
  for (const RequestRows& rows : requests_) {
    const int64_t tokens = rows.end_position();
    keys_.push_back(RandomArray(
        shape.dtype, {tokens, shape.num_kv_heads, shape.k_dim}, random));
    values_.push_back(RandomArray(
        shape.dtype, {tokens, shape.num_kv_heads, shape.v_dim}, random));
    num_pages += PagesFor(tokens);
  }
  num_kv_blocks_ = num_pages + random.Between(1, 5);
  // Other layers' layer blocks, or nothing, stand between a pool's KV blocks.
  kv_block_stride_bytes_ =
      int64_t{format_.head_block_bytes} * shape.num_kv_heads +
      64 * random.Between(0, 3);
  Shuffle(random);
}

int PagedCase::num_rows() const {
  int rows = 0;
  for (const RequestRows& request : requests_) rows += request.num_tokens;
  return rows;
}

void PagedCase::Shuffle(RandomSource& random) {
  std::vector<uint32_t> order(static_cast<size_t>(num_kv_blocks_));
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random.engine());
  kv_blocks_.clear();
  auto next = order.begin();
  for (const RequestRows& rows : requests_) {
    const int64_t pages = PagesFor(rows.end_position());
    kv_blocks_.emplace_back(next, next + pages);
    next += pages;
  }
  spare_kv_block_ = *next;
}

size_t PagedCase::HeadBlockOffset(uint32_t kv_block, int head) const {
  return static_cast<size_t>(kv_block * kv_block_stride_bytes_ +
                             int64_t{head} * format_.head_block_bytes);
}

size_t PagedCase::KeyOffset(size_t request, int64_t token, int head) const {
  return HeadBlockOffset(KvBlockOf(request, token / kPageTokens), head) +
         static_cast<size_t>(token % kPageTokens * shape_.k_dim *
                             DtypeBytes(shape_.dtype));
}

void PagedCase::SetKeysAndValues(size_t request, TestArray keys,
                                 TestArray values) {
  CHECK(keys.shape == keys_[request].shape &&
            values.shape == values_[request].shape,
        "request={} keys={} values={}", request, keys.values.size(),
        values.values.size());
  keys_[request] = std::move(keys);
  values_[request] = std::move(values);
}

void PagedCase::RepeatFirstKey(size_t request) {
  std::vector<double>& values = keys_[request].values;
  const auto size = static_cast<size_t>(shape_.num_kv_heads * shape_.k_dim);
  for (size_t i = size; i < values.size(); ++i) values[i] = values[i - size];
}

size_t PagedCase::ValueOffset(size_t request, int64_t token, int head) const {
  return HeadBlockOffset(KvBlockOf(request, token / kPageTokens), head) +
         static_cast<size_t>(format_.v_offset_bytes +
                             token % kPageTokens * shape_.v_dim *
                                 DtypeBytes(shape_.dtype));
}

std::vector<std::byte> PagedCase::PoolImage(
    const std::vector<int>& num_tokens) const {
  std::vector<std::byte> image(
      static_cast<size_t>(num_kv_blocks_ * kv_block_stride_bytes_), kPoison);
  const auto element_bytes = static_cast<size_t>(DtypeBytes(shape_.dtype));
  for (size_t r = 0; r < requests_.size(); ++r) {
    for (int64_t token = 0; token < num_tokens[r]; ++token) {
      for (int head = 0; head < shape_.num_kv_heads; ++head) {
        std::byte* key = image.data() + KeyOffset(r, token, head);
        for (int i = 0; i < shape_.k_dim; ++i, key += element_bytes) {
          StoreElement(shape_.dtype, keys_[r].at(token, head, i), key);
        }
        std::byte* value = image.data() + ValueOffset(r, token, head);
        for (int i = 0; i < shape_.v_dim; ++i, value += element_bytes) {
          StoreElement(shape_.dtype, values_[r].at(token, head, i), value);
        }
      }
    }
  }
  return image;
}

LayerStep PagedCase::Step(TestDevice& device,
                          const std::vector<RequestRows>& rows,
                          int window) const {
  CHECK(rows.size() == requests_.size());
  std::vector<int32_t> row_to_request, first_row, first_position, num_tokens,
      num_prefill_rows;
  for (size_t r = 0; r < rows.size(); ++r) {
    first_row.push_back(static_cast<int32_t>(row_to_request.size()));
    first_position.push_back(rows[r].first_position);
    num_tokens.push_back(rows[r].num_tokens);
    num_prefill_rows.push_back(rows[r].num_prefill_rows);
    row_to_request.insert(row_to_request.end(),
                          static_cast<size_t>(rows[r].num_tokens),
                          static_cast<int32_t>(r));
  }
  LayerStep step;
  step.window = window;
  step.num_rows = static_cast<int>(row_to_request.size());
  step.num_requests = static_cast<int>(rows.size());
  step.row_to_request = device.Upload(Int32Array(row_to_request));
  step.first_row = device.Upload(Int32Array(first_row));
  step.first_position = device.Upload(Int32Array(first_position));
  step.num_tokens = device.Upload(Int32Array(num_tokens));
  step.num_prefill_rows = device.Upload(Int32Array(num_prefill_rows));
  return step;
}

LayerCache PagedCase::Cache(TestDevice& device, const View& pool) const {
  int64_t max_pages = 1;
  for (const auto& pages : kv_blocks_) {
    max_pages = std::max(max_pages, std::ssize(pages));
  }
  LayerCache cache;
  cache.max_pages = static_cast<int>(max_pages);
  cache.format = format_;
  cache.num_kv_heads = shape_.num_kv_heads;
  cache.layer_blocks = pool.data;
  cache.kv_block_stride_bytes = kv_block_stride_bytes_;
  cache.page_table = UploadRows(device, kv_blocks_, kNotWhole);
  return cache;
}

std::vector<RequestRows> RandomRequests(RandomSource& random,
                                        int max_position) {
  std::vector<RequestRows> requests(static_cast<size_t>(random.Between(0, 4)));
  for (RequestRows& rows : requests) {
    const int reach =
        random.Among({0, 1, 31, 32, 33, 127, 128, 300, max_position});
    rows.first_position =
        static_cast<int32_t>(random.Between(0, std::min(reach, max_position)));
    rows.num_tokens =
        static_cast<int32_t>(random.Between(0, random.Among({1, 8, 70, 150})));
    rows.num_prefill_rows = static_cast<int32_t>(
        random.Among({int64_t{0}, int64_t{rows.num_tokens},
                      random.Between(0, rows.num_tokens)}));
  }
  return requests;
}

KvShape RandomKvShape(RandomSource& random) {
  KvShape shape;
  shape.dtype =
      random.Among({Dtype::kFloat32, Dtype::kBFloat16, Dtype::kFloat16});
  shape.group_heads = random.Among({1, 2, 3, 4, 5, 7, 8, 16});
  shape.num_kv_heads =
      shape.group_heads > 4 ? 1 : static_cast<int>(random.Between(1, 3));
  shape.k_dim = random.Among({8, 16, 24, 32, 64, 80, 96, 128});
  shape.v_dim = random.Chance(0.7) ? shape.k_dim
                                   : random.Among({8, 16, 32, 64, 112, 128});
  return shape;
}

}  // namespace winnow
