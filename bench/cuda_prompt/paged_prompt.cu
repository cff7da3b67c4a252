#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "backend/cuda/runtime/step_views.h"
#include "paged_prompt.h"

namespace winnow {
namespace {

using Bf16 = __nv_bfloat16;

constexpr int kThreads = 128;

void Must(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("CUDA: %s: %s\n", what, cudaGetErrorString(status));
  std::fflush(stdout);
  std::_Exit(3);
}

__device__ uint64_t Mixed(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

// A normally distributed number that the key names.
__device__ Bf16 Drawn(uint64_t seed, uint64_t key) {
  const uint64_t bits = Mixed(Mixed(seed) + key * 0x9e3779b97f4a7c15ull);
  const float u = (static_cast<uint32_t>(bits) + 1.0f) * 0x1p-32f;
  const float angle = static_cast<uint32_t>(bits >> 32) * 0x1p-32f * 6.2831853f;
  return __float2bfloat16_rn(sqrtf(-2 * logf(fminf(u, 1.0f))) * cosf(angle));
}

// One block a (token, request).
__global__ void FillPages(device::Pages pages, device::StepRows rows,
                          uint64_t seed) {
  const int request = blockIdx.y;
  const int end = rows.first_position[request] + rows.num_tokens[request];
  for (int token = blockIdx.x; token < end; token += gridDim.x) {
    for (int i = threadIdx.x; i < pages.num_kv_heads * pages.k_dim;
         i += blockDim.x) {
      const int head = i / pages.k_dim, c = i % pages.k_dim;
      auto* slice =
          reinterpret_cast<Bf16*>(pages.Slice(request, token / 32, head));
      const uint64_t key =
          ((static_cast<uint64_t>(request) << 28 | token) << 20 |
           static_cast<uint64_t>(i)) *
          2;
      slice[token % 32 * pages.k_dim + c] = Drawn(seed, key);
      slice[pages.v_offset_bytes / 2 + token % 32 * pages.k_dim + c] =
          Drawn(seed, key + 1);
    }
  }
}

__global__ void FillQueries(device::StepRows rows, Bf16* q, int row_size,
                            uint64_t seed) {
  const int row = blockIdx.x;
  const uint64_t token =
      static_cast<uint64_t>(rows.Request(row)) << 28 | rows.Position(row);
  for (int i = threadIdx.x; i < row_size; i += blockDim.x) {
    q[static_cast<int64_t>(row) * row_size + i] =
        Drawn(seed + 1, token << 20 | static_cast<uint64_t>(i));
  }
}

struct Reference {
  device::StepRows rows;
  device::Pages pages;
  const Bf16* q;
  double* scores;  // [blocks, max_keys]
  int64_t max_keys;
  const int* checked_rows;
  double* out;                  // [checked, q_heads, dim]
  double* magnitude;            // [checked, q_heads, dim]
  double* lse;                  // [checked, q_heads]
  const uint32_t* read_tokens;  // [rows, lists, pages], bits; or null
  int num_lists;
  int64_t num_pages;
  int num_q_heads;
  double scale;

  __device__ bool Reads(int row, int head, int token) const {
    if (read_tokens == nullptr) return true;
    const int64_t list =
        int64_t{row} * num_lists + head * num_lists / num_q_heads;
    return (read_tokens[list * num_pages + token / 32] >> token % 32 & 1) != 0;
  }
};

__device__ double OverBlock(double value, bool maximum, double* shared) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int i = kThreads / 2; i > 0; i /= 2) {
    if (threadIdx.x < i) {
      const double other = shared[threadIdx.x + i];
      shared[threadIdx.x] = maximum ? fmax(shared[threadIdx.x], other)
                                    : shared[threadIdx.x] + other;
    }
    __syncthreads();
  }
  const double all = shared[0];
  __syncthreads();
  return all;
}

// One block a (checked row, q head); scratch is reused by blocks.
__global__ void AttendInFloat64(const Reference ref, int num_items) {
  __shared__ double shared[kThreads];
  const int dim = ref.pages.k_dim;
  double* scores = ref.scores + blockIdx.x * ref.max_keys;
  for (int item = blockIdx.x; item < num_items; item += gridDim.x) {
    const int row = ref.checked_rows[item / ref.num_q_heads];
    const int head = item % ref.num_q_heads;
    const int kv_head = head / (ref.num_q_heads / ref.pages.num_kv_heads);
    const int request = ref.rows.Request(row);
    const int last = ref.rows.Position(row);
    const int first = ref.rows.FirstVisible(last);
    const Bf16* q =
        ref.q + (static_cast<int64_t>(row) * ref.num_q_heads + head) * dim;
    double greatest = -1e300;
    for (int t = first + threadIdx.x; t <= last; t += kThreads) {
      const auto* key = reinterpret_cast<const Bf16*>(
                            ref.pages.Slice(request, t / 32, kv_head)) +
                        t % 32 * dim;
      double dot = 0;
      for (int i = 0; i < dim; ++i) {
        dot += static_cast<double>(__bfloat162float(q[i])) *
               __bfloat162float(key[i]);
      }
      const double score = ref.Reads(row, head, t) ? dot * ref.scale : -1e300;
      scores[t - first] = score;
      greatest = fmax(greatest, score);
    }
    greatest = OverBlock(greatest, true, shared);
    double sum = 0;
    for (int t = first + threadIdx.x; t <= last; t += kThreads) {
      sum += scores[t - first] = exp(scores[t - first] - greatest);
    }
    sum = OverBlock(sum, false, shared);
    for (int i = threadIdx.x; i < dim; i += kThreads) {
      double value = 0, magnitude = 0;
      for (int t = first; t <= last; ++t) {
        const auto* values = reinterpret_cast<const Bf16*>(
                                 ref.pages.Slice(request, t / 32, kv_head)) +
                             ref.pages.v_offset_bytes / 2;
        const double term = scores[t - first] / sum *
                            __bfloat162float(values[t % 32 * dim + i]);
        value += term;
        magnitude += fabs(term);
      }
      ref.out[static_cast<int64_t>(item) * dim + i] = value;
      ref.magnitude[static_cast<int64_t>(item) * dim + i] = magnitude;
    }
    if (threadIdx.x == 0) ref.lse[item] = greatest + log(sum);
    __syncthreads();
  }
}

double FromBits(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

template <typename T>
std::vector<T> Fetched(const T* from, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  Must(cudaMemcpy(values.data(), from, values.size() * sizeof(T),
                  cudaMemcpyDeviceToHost),
       "fetching");
  return values;
}

}  // namespace

int PromptCase::num_rows() const {
  int rows = 0;
  for (const PromptRequest& request : requests) rows += request.num_tokens;
  return rows;
}

std::string PromptCase::Describe() const {
  std::string text = fmt::format("d={} kv_heads={} group={} window={} ",
                                 head_dim, num_kv_heads, group_heads, window);
  if (picks.num_lists > 0) {
    text += fmt::format("lists={} kept={} rows={}..{} ", picks.num_lists,
                        picks.kept, picks.first_row, picks.end_row);
  }
  text += "[";
  for (const PromptRequest& r : requests) {
    text += fmt::format("({}, {}, {})", r.first_position, r.num_tokens,
                        r.num_prefill_rows);
  }
  return text + "]";
}

template <typename T>
T* PagedPrompt::Allocate(int64_t count) {
  void* data = nullptr;
  const size_t bytes =
      static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(T);
  Must(cudaMalloc(&data, bytes), "allocating");
  Must(cudaMemset(data, 0xff, bytes), "poisoning");
  allocations_.push_back(data);
  return static_cast<T*>(data);
}

View PagedPrompt::Upload(const std::vector<int32_t>& values) {
  auto* data = Allocate<int32_t>(std::ssize(values));
  Must(cudaMemcpy(data, values.data(), values.size() * 4,
                  cudaMemcpyHostToDevice),
       "uploading");
  return MakeView(data, Dtype::kInt32, {std::ssize(values)});
}

PagedPrompt::PagedPrompt(const PromptCase& prompt, uint64_t seed)
    : prompt_(prompt), seed_(seed) {
  std::mt19937_64 random(seed);
  MakeStep();
  MakePool(random);
  MakePicks();
  const int64_t rows = prompt_.num_rows(), heads = prompt_.num_q_heads();
  const int64_t dim = prompt_.head_dim;
  q_ = MakeView(Allocate<Bf16>(rows * heads * dim), Dtype::kBFloat16,
                {rows, heads, dim});
  out_ = MakeView(Allocate<Bf16>(rows * heads * dim), Dtype::kBFloat16,
                  {rows, heads, dim});
  lse_ =
      MakeView(Allocate<float>(rows * heads), Dtype::kFloat32, {rows, heads});
  if (rows > 0) {
    FillQueries<<<static_cast<unsigned>(rows), kThreads>>>(
        DeviceRows(step_), reinterpret_cast<Bf16*>(q_.data),
        static_cast<int>(heads * dim), seed_);
    FillPages<<<dim3(4096, static_cast<unsigned>(step_.num_requests)),
                kThreads>>>(DevicePages(cache_), DeviceRows(step_), seed_);
  }
  Must(cudaDeviceSynchronize(), "filling");
}

PagedPrompt::~PagedPrompt() {
  for (void* data : allocations_) cudaFree(data);
}

void PagedPrompt::MakeStep() {
  std::vector<int32_t> row_to_request, first_row, first_position, num_tokens,
      num_prefill_rows;
  for (const PromptRequest& request : prompt_.requests) {
    const auto index = static_cast<int32_t>(first_row.size());
    first_row.push_back(static_cast<int32_t>(row_to_request.size()));
    first_position.push_back(request.first_position);
    num_tokens.push_back(request.num_tokens);
    num_prefill_rows.push_back(request.num_prefill_rows);
    for (int t = 0; t < request.num_tokens; ++t) {
      row_to_request.push_back(index);
      positions_.push_back(request.first_position + t);
    }
  }
  step_.window = prompt_.window;
  step_.num_rows = prompt_.num_rows();
  step_.num_requests = static_cast<int>(prompt_.requests.size());
  step_.row_to_request = Upload(row_to_request);
  step_.first_row = Upload(first_row);
  step_.first_position = Upload(first_position);
  step_.num_tokens = Upload(num_tokens);
  step_.num_prefill_rows = Upload(num_prefill_rows);
}

void PagedPrompt::MakePool(std::mt19937_64& random) {
  int64_t num_pages = 0, max_pages = 1;
  for (const PromptRequest& request : prompt_.requests) {
    const int64_t pages = PagesFor(request.first_position + request.num_tokens);
    num_pages += pages;
    max_pages = std::max(max_pages, pages);
  }
  std::vector<uint32_t> kv_blocks(static_cast<size_t>(num_pages + 2));
  std::iota(kv_blocks.begin(), kv_blocks.end(), 0u);
  std::shuffle(kv_blocks.begin(), kv_blocks.end(), random);
  const int64_t stride = max_pages + 3;
  std::vector<uint32_t> table(
      prompt_.requests.size() * static_cast<size_t>(stride), kNotWhole);
  size_t next = 0;
  for (size_t r = 0; r < prompt_.requests.size(); ++r) {
    const PromptRequest& request = prompt_.requests[r];
    const int64_t pages = PagesFor(request.first_position + request.num_tokens);
    for (int64_t p = 0; p < pages; ++p) {
      table[r * static_cast<size_t>(stride) + static_cast<size_t>(p)] =
          kv_blocks[next++];
    }
  }
  cache_.format =
      MakeSliceFormat(Dtype::kBFloat16, prompt_.head_dim, prompt_.head_dim);
  cache_.num_kv_heads = prompt_.num_kv_heads;
  cache_.kv_block_stride_bytes =
      int64_t{cache_.format.slice_bytes} * prompt_.num_kv_heads +
      static_cast<int64_t>(random() % 3) * 64;
  pool_bytes_ = std::ssize(kv_blocks) * cache_.kv_block_stride_bytes;
  cache_.strips = Allocate<std::byte>(pool_bytes_);
  std::vector<int32_t> first;
  for (int r = 0; r < step_.num_requests; ++r) {
    first.push_back(static_cast<int32_t>(r * stride));
  }
  auto* on_device = Allocate<uint32_t>(std::ssize(table));
  Must(cudaMemcpy(on_device, table.data(), table.size() * 4,
                  cudaMemcpyHostToDevice),
       "uploading the page table");
  cache_.max_pages = static_cast<int>(max_pages);
  cache_.page_table = {
      .first = Upload(first),
      .entries = MakeView(on_device, Dtype::kUInt32, {std::ssize(table)})};
}

bool PagedPrompt::IsRead(int64_t row) const {
  return prompt_.picks.num_lists == 0 ||
         (row >= prompt_.picks.first_row && row < prompt_.picks.end_row);
}

// A list follows from its request, position and number, and shares most of its
// pages with its neighbours', as selectors' lists do.
void PagedPrompt::MakePicks() {
  const int num_rows = prompt_.num_rows(), heads = prompt_.num_q_heads();
  const PromptPicks& wanted = prompt_.picks;
  const int lists = wanted.num_lists;
  num_pages_ = cache_.max_pages;
  std::vector<uint32_t> read_tokens(
      static_cast<size_t>(num_rows * int64_t{lists} * num_pages_));
  const int first = std::min(wanted.first_row, num_rows);
  const int end = std::min(wanted.end_row, num_rows);
  const int64_t capacity = num_pages_ + 1;
  std::vector<uint32_t> picks(
      static_cast<size_t>(lists > 0 ? (end - first) * heads * capacity * 2 : 0),
      0xffffffff);
  std::vector<int32_t> num_picks(static_cast<size_t>((end - first) * heads),
                                 -7);
  for (size_t r = 0, row = 0; r < prompt_.requests.size(); ++r) {
    const PromptRequest& request = prompt_.requests[r];
    for (int t = 0; t < request.num_tokens; ++t, ++row) {
      const int position = request.first_position + t;
      const bool is_read =
          t < request.num_prefill_rows && IsRead(static_cast<int64_t>(row));
      if (!is_read) continue;
      const int seen = prompt_.window > 0
                           ? std::min(position + 1, prompt_.window)
                           : position + 1;
      if (lists == 0) num_keys_read_ += double{1} * seen * heads;
      for (int list = 0; list < lists; ++list) {
        std::mt19937_64 shared(
            seed_ * 977 + r * 31 +
            static_cast<size_t>(list + position / 512 * 131));
        std::mt19937_64 own(seed_ * 977 + r * 31 +
                            static_cast<size_t>(list + position * 131) + 5);
        const bool every = wanted.ragged && own() % 7 == 0;
        uint32_t* bits = &read_tokens[(row * static_cast<size_t>(lists) +
                                       static_cast<size_t>(list)) *
                                      static_cast<size_t>(num_pages_)];
        const size_t slot =
            (row - static_cast<size_t>(first)) * static_cast<size_t>(heads) +
            static_cast<size_t>(list);
        uint32_t* to = &picks[slot * static_cast<size_t>(capacity) * 2];
        int count = 0;
        const int last_page = position / 32;
        for (int page = 0; page <= last_page; ++page) {
          const double draw =
              0x1p-64 * static_cast<double>(own() % 8 == 0 ? own() : shared());
          uint32_t tokens =
              every || draw < wanted.kept || page == last_page ? 0xffffffff : 0;
          if (wanted.ragged && !every && own() % 4 == 0) {
            tokens &= static_cast<uint32_t>(own());
          }
          if (page == last_page) {
            tokens |= 1u << position % 32;
            tokens &= 0xffffffff >> (31 - position % 32);
          }
          if (tokens == 0) continue;
          bits[page] = tokens;
          to[2 * count] = static_cast<uint32_t>(page);
          to[2 * count + 1] = tokens;
          ++count;
          num_keys_read_ += std::popcount(tokens) * double{1} * heads / lists;
        }
        num_picks[slot] = every ? -1 : count;
      }
    }
  }
  if (lists == 0) return;
  auto* picks_there = Allocate<uint32_t>(std::ssize(picks));
  Must(cudaMemcpy(picks_there, picks.data(), picks.size() * 4,
                  cudaMemcpyHostToDevice),
       "uploading picks");
  source_.kind = AttendSource::Kind::kPicks;
  source_.picks = {.first_row = first,
                   .picks = MakeView(picks_there, Dtype::kUInt32,
                                     {end - first, heads, capacity, 2}),
                   .num_picks = Upload(num_picks).Reshape({end - first, heads}),
                   .num_lists = Upload(std::vector<int32_t>(
                       static_cast<size_t>(end - first), lists))};
  read_tokens_ = Allocate<uint32_t>(std::ssize(read_tokens));
  Must(cudaMemcpy(read_tokens_, read_tokens.data(), read_tokens.size() * 4,
                  cudaMemcpyHostToDevice),
       "uploading what is read");
}

AttendArgs PagedPrompt::Args() const {
  AttendArgs args;
  args.q = q_;
  args.sources = {&source_, 1};
  args.scale = 2.0f / std::sqrt(static_cast<float>(prompt_.head_dim));
  args.batch_invariant = prompt_.batch_invariant;
  args.out = out_;
  args.lse = lse_;
  return args;
}

void PagedPrompt::PoisonOutput() {
  Must(
      cudaMemset(out_.data, 0xff, static_cast<size_t>(out_.num_elements()) * 2),
      "poisoning");
  Must(
      cudaMemset(lse_.data, 0xff, static_cast<size_t>(lse_.num_elements()) * 4),
      "poisoning");
}

std::vector<uint16_t> PagedPrompt::Out() const {
  return Fetched(reinterpret_cast<uint16_t*>(out_.data), out_.num_elements());
}

std::vector<float> PagedPrompt::Lse() const {
  return Fetched(reinterpret_cast<float*>(lse_.data), lse_.num_elements());
}

int64_t PagedPrompt::CountWrong(int stride) const {
  std::vector<int> checked;
  std::vector<bool> is_prompt;
  for (size_t r = 0, row = 0; r < prompt_.requests.size(); ++r) {
    for (int t = 0; t < prompt_.requests[r].num_tokens; ++t, ++row) {
      is_prompt.push_back(t < prompt_.requests[r].num_prefill_rows &&
                          IsRead(static_cast<int64_t>(row)));
      if (is_prompt.back() && row % static_cast<size_t>(stride) == 0) {
        checked.push_back(static_cast<int>(row));
      }
    }
  }
  const int heads = prompt_.num_q_heads(), dim = prompt_.head_dim;
  const std::vector<uint16_t> out = Out();
  const std::vector<float> lse = Lse();
  int64_t num_wrong = 0;
  const int64_t row_size = int64_t{heads} * dim;
  for (int64_t row = 0; row < prompt_.num_rows(); ++row) {
    if (is_prompt[static_cast<size_t>(row)]) continue;
    for (int64_t i = 0; i < row_size; ++i) {
      if (out[static_cast<size_t>(row * row_size + i)] != 0xffff &&
          ++num_wrong <= 3) {
        std::printf("  row %ld is no prefill row but was written\n", row);
      }
    }
  }
  if (checked.empty()) return num_wrong;
  int max_keys = 1;
  for (const int p : positions_) max_keys = std::max(max_keys, p + 1);
  const int num_items = static_cast<int>(checked.size()) * heads;
  const int num_blocks = std::min(num_items, 132 * 12);
  void* memory[5];
  Must(cudaMalloc(&memory[0], size_t(num_blocks) * size_t(max_keys) * 8), "1");
  Must(cudaMalloc(&memory[1], checked.size() * 4), "2");
  Must(cudaMalloc(&memory[2], size_t(num_items) * size_t(dim) * 8), "3");
  Must(cudaMalloc(&memory[3], size_t(num_items) * size_t(dim) * 8), "4");
  Must(cudaMalloc(&memory[4], size_t(num_items) * 8), "5");
  Must(cudaMemcpy(memory[1], checked.data(), checked.size() * 4,
                  cudaMemcpyHostToDevice),
       "6");
  Reference reference = {.rows = DeviceRows(step_),
                         .pages = DevicePages(cache_),
                         .q = reinterpret_cast<Bf16*>(q_.data),
                         .scores = static_cast<double*>(memory[0]),
                         .max_keys = max_keys,
                         .checked_rows = static_cast<int*>(memory[1]),
                         .out = static_cast<double*>(memory[2]),
                         .magnitude = static_cast<double*>(memory[3]),
                         .lse = static_cast<double*>(memory[4]),
                         .read_tokens = read_tokens_,
                         .num_lists = prompt_.picks.num_lists,
                         .num_pages = num_pages_,
                         .num_q_heads = heads,
                         .scale = Args().scale};
  AttendInFloat64<<<static_cast<unsigned>(num_blocks), kThreads>>>(reference,
                                                                   num_items);
  Must(cudaDeviceSynchronize(), "reference");
  const auto values = Fetched(reference.out, int64_t{num_items} * dim);
  const auto magnitudes =
      Fetched(reference.magnitude, int64_t{num_items} * dim);
  const auto lses = Fetched(reference.lse, num_items);
  for (void* m : memory) cudaFree(m);
  int printed = 0;
  for (int64_t item = 0; item < num_items; ++item) {
    const int row = checked[static_cast<size_t>(item / heads)];
    const int64_t head = item % heads;
    int64_t wrong = 0, first = -1;
    for (int i = 0; i < dim; ++i) {
      const double want = values[static_cast<size_t>(item * dim + i)];
      const double share =
          magnitudes[static_cast<size_t>(item * dim + i)] / 256;
      const double got = FromBits(
          out[static_cast<size_t>((int64_t{row} * heads + head) * dim + i)]);
      if (!(std::abs(got - want) <= share + (std::abs(want) + share) / 256)) {
        if (wrong++ == 0) first = i;
      }
    }
    const double want = lses[static_cast<size_t>(item)];
    const float got = lse[static_cast<size_t>(int64_t{row} * heads + head)];
    const bool lse_wrong =
        !(std::abs(got - want) <= 2e-5 * (2 + std::abs(want)));
    num_wrong += wrong + lse_wrong;
    if ((wrong > 0 || lse_wrong) && ++printed <= 6) {
      const auto at = static_cast<size_t>((int64_t{row} * heads + head) * dim +
                                          std::max<int64_t>(first, 0));
      std::printf(
          "  row %d position %d head %ld: %ld of %d wrong, first %ld: got %g "
          "want %g; next got %g want %g; lse got %g want %g\n",
          row, positions_[static_cast<size_t>(row)], head, wrong, dim, first,
          FromBits(out[at]),
          values[static_cast<size_t>(item * dim + std::max<int64_t>(first, 0))],
          at + 1 < out.size() ? FromBits(out[at + 1]) : 0.0,
          values[static_cast<size_t>(
              std::min<int64_t>(item * dim + std::max<int64_t>(first, 0) + 1,
                                std::ssize(values) - 1))],
          got, want);
    }
  }
  return num_wrong;
}

}  // namespace winnow
