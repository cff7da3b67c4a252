// PagedCase: a random step over paged KV, for tests of Append, Attend and
// CopyPagePrefixes.
#ifndef WINNOW_BACKEND_CONFORMANCE_PAGED_CASE_H_
#define WINNOW_BACKEND_CONFORMANCE_PAGED_CASE_H_

#include <vector>

#include "backend/conformance/test_array.h"

namespace winnow {

// One request of a step: rows at positions [first_position, first_position +
// num_tokens), the first num_prefill_rows of them prefill rows.
struct RequestRows {
  int32_t first_position = 0;
  int32_t num_tokens = 0;
  int32_t num_prefill_rows = 0;

  int32_t end_position() const { return first_position + num_tokens; }
};

struct KvShape {
  Dtype dtype = Dtype::kFloat32;
  int num_kv_heads = 1;
  int group_heads = 1;  // q heads a KV head
  int k_dim = 16;
  int v_dim = 16;

  int num_q_heads() const { return num_kv_heads * group_heads; }
};

// The keys and values of all requests, in token order on the host and in pages
// on the device, in KV blocks drawn at random from a pool of poison. Poison too
// are the tokens behind a request's end.
class PagedCase {
 public:
  PagedCase(const KvShape& shape, std::vector<RequestRows> requests,
            RandomSource& random);

  const KvShape& shape() const { return shape_; }
  const std::vector<RequestRows>& requests() const { return requests_; }
  int num_rows() const;
  // [tokens, kv_heads, dim] of one request.
  const TestArray& keys(size_t request) const { return keys_[request]; }
  const TestArray& values(size_t request) const { return values_[request]; }

  // REQUIRES: arrays of the shapes of keys() and values(), of numbers that
  // the element type holds.
  void SetKeysAndValues(size_t request, TestArray keys, TestArray values);
  // Makes all keys of a request equal to its first.
  void RepeatFirstKey(size_t request);
  // Draws other KV blocks for the same tokens.
  void Shuffle(RandomSource& random);

  // The pool as bytes, with each request's tokens [0, num_tokens[request]).
  std::vector<std::byte> PoolImage(const std::vector<int>& num_tokens) const;
  // Where a token's key (or value) stands in the image.
  size_t KeyOffset(size_t request, int64_t token, int head) const;
  size_t ValueOffset(size_t request, int64_t token, int head) const;
  size_t HeadBlockOffset(uint32_t kv_block, int head) const;
  uint32_t KvBlockOf(size_t request, int64_t page) const {
    return kv_blocks_[request][static_cast<size_t>(page)];
  }
  uint32_t spare_kv_block() const { return spare_kv_block_; }

  // What the ops take. `rows` stands for requests(): their order and their
  // page tables stay, the positions may be others.
  LayerStep Step(TestDevice& device, const std::vector<RequestRows>& rows,
                 int window) const;
  LayerCache Cache(TestDevice& device, const View& pool) const;

 private:
  KvShape shape_;
  std::vector<RequestRows> requests_;
  std::vector<TestArray> keys_, values_;
  std::vector<std::vector<uint32_t>> kv_blocks_;  // by request and page
  uint32_t spare_kv_block_ = 0;                   // one that nobody uses
  int64_t num_kv_blocks_ = 0;
  int64_t kv_block_stride_bytes_ = 0;
  HeadBlockFormat format_;
};

// Between zero and four requests: short and long, prompts, decode rows, and
// rows of both kinds in one request.
std::vector<RequestRows> RandomRequests(RandomSource& random, int max_position);
KvShape RandomKvShape(RandomSource& random);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_PAGED_CASE_H_
