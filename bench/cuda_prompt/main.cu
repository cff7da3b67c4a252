// Prompt attention alone: right, the same bits however the rows are cut, and
// how fast. Without arguments, all three.
//
//   cuda_prompt check [rounds]   against float64, random shapes
//   cuda_prompt bits             chunks, batches and KV blocks change no bit
//   cuda_prompt time [briefly]   TFLOP/s of the shapes that it names
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "backend/cuda/attend/attend_prompt.h"
#include "paged_prompt.h"

namespace winnow {
namespace {

constexpr auto kPatience = std::chrono::seconds(8);

// Owns a device with a small workspace and a queue.
class Device {
 public:
  Device() {
    cudaDeviceGetAttribute(&device_.num_multiprocessors,
                           cudaDevAttrMultiProcessorCount, 0);
    device_.workspace_bytes = 1 << 20;
    void* workspace = nullptr;
    cudaMalloc(&workspace, device_.workspace_bytes);
    device_.workspace = static_cast<std::byte*>(workspace);
    queue_ = std::make_unique<CudaQueue>(device_);
  }
  CudaQueue& queue() { return *queue_; }

  // Ends the process where the device fails or does not come back.
  void Wait(const std::string& what) {
    const auto start = std::chrono::steady_clock::now();
    cudaError_t status;
    while ((status = cudaStreamQuery(queue_->stream())) == cudaErrorNotReady) {
      if (std::chrono::steady_clock::now() - start > kPatience) {
        Give("HANGS", what);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (status != cudaSuccess) Give(cudaGetErrorString(status), what);
    if (!device_.first_error.empty()) Give(device_.first_error, what);
  }

 private:
  [[noreturn]] static void Give(const std::string& why,
                                const std::string& what) {
    std::printf("FAILED: %s: %s\n", why.c_str(), what.c_str());
    std::fflush(stdout);
    std::_Exit(2);
  }

  CudaDevice device_;
  std::unique_ptr<CudaQueue> queue_;
};

struct Answer {
  std::vector<uint16_t> out;
  std::vector<float> lse;
};

void Attend(Device& device, PagedPrompt& paged) {
  EnqueueAttendPrompt(device.queue(), paged.step(), paged.Args(),
                      paged.cache());
}

Answer Run(Device& device, const PromptCase& prompt, uint64_t seed) {
  PagedPrompt paged(prompt, seed);
  Attend(device, paged);
  device.Wait(prompt.Describe());
  return {paged.Out(), paged.Lse()};
}

int Among(std::mt19937_64& random, std::initializer_list<int> choices) {
  return choices.begin()[random() % choices.size()];
}
int Between(std::mt19937_64& random, int low, int high) {
  return low +
         static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
}

PromptCase RandomCase(std::mt19937_64& random, int round) {
  PromptCase prompt;
  prompt.head_dim = Among(random, {64, 96, 128});
  prompt.group_heads = Among(random, {1, 2, 3, 4, 5, 7, 8, 16, 64});
  prompt.num_kv_heads = prompt.group_heads > 8 ? 1 : Between(random, 1, 3);
  if (random() % 2 == 0) {
    prompt.window = Among(random, {1, 2, 31, 32, 100, 128, 129, 200, 1000});
  }
  const int most = round < 20 ? 300 : 5000;
  const int num_requests = Between(random, round < 8 ? 1 : 0, 5);
  for (int i = 0; i < num_requests; ++i) {
    PromptRequest request;
    const int reach = Among(random, {0, 1, 31, 32, 33, 127, 128, 300, most});
    request.first_position = Between(random, 0, std::min(reach, most));
    request.num_tokens = Between(random, 0, Among(random, {1, 8, 70, 400}));
    request.num_prefill_rows = random() % 3 == 0
                                   ? Between(random, 0, request.num_tokens)
                                   : request.num_tokens;
    prompt.requests.push_back(request);
  }
  if (random() % 3 == 0) {
    prompt.picks.num_lists =
        Among(random, {1, prompt.num_kv_heads, prompt.num_q_heads()});
    prompt.picks.kept = Among(random, {2, 10, 50, 90}) / 100.0;
    if (random() % 3 == 0) {
      prompt.picks.first_row = Between(random, 0, prompt.num_rows());
      prompt.picks.end_row =
          Between(random, prompt.picks.first_row, prompt.num_rows());
    }
  }
  return prompt;
}

// The simplest first, so that what fails says most.
std::vector<PromptCase> PlainCases() {
  std::vector<PromptCase> cases;
  for (const int dim : {128, 64, 96}) {
    cases.push_back({dim, 1, 1, 0, {{0, 1, 1}}});
    cases.push_back({dim, 1, 1, 0, {{0, 64, 64}}});
    cases.push_back({dim, 1, 1, 0, {{0, 128, 128}}});
    cases.push_back({dim, 1, 1, 0, {{0, 300, 300}}});
    cases.push_back({dim, 2, 4, 0, {{0, 1000, 1000}}});
    cases.push_back({dim, 2, 4, 0, {{1000, 100, 100}}});
    cases.push_back({dim, 2, 4, 200, {{1000, 300, 300}}});
    cases.push_back({dim, 2, 4, 0, {{5, 9, 9}, {100, 50, 30}, {0, 7, 0}}});
    for (const int lists : {1, 2, 8}) {
      cases.push_back({dim, 2, 4, 0, {{0, 300, 300}}, {lists, 1.0, false}});
      cases.push_back({dim, 2, 4, 0, {{900, 100, 100}}, {lists, 0.2, true}});
    }
  }
  return cases;
}

bool Check(Device& device, int num_rounds) {
  std::mt19937_64 random(7);
  std::vector<PromptCase> cases = PlainCases();
  const size_t num_plain = cases.size();
  for (int i = 0; i < num_rounds; ++i) cases.push_back(RandomCase(random, i));
  cases.push_back({128, 8, 4, 0, {{0, 8192, 8192}}});
  cases.push_back({128, 2, 4, 0, {{60000, 4000, 4000}, {30000, 2000, 2000}}});
  int num_failed = 0;
  for (size_t i = 0; i < cases.size() && num_failed < 12; ++i) {
    PagedPrompt paged(cases[i], i);
    Attend(device, paged);
    device.Wait(cases[i].Describe());
    const int64_t rows = cases[i].num_rows() * cases[i].num_q_heads();
    const int64_t wrong =
        paged.CountWrong(static_cast<int>(1 + rows / 40000 * 7));
    if (wrong == 0) continue;
    ++num_failed;
    std::printf("WRONG: case %zu: %ld numbers: %s\n", i, wrong,
                cases[i].Describe().c_str());
    std::fflush(stdout);
  }
  std::printf("check: %zu cases (%zu plain), %d wrong\n", cases.size(),
              num_plain, num_failed);
  return num_failed == 0;
}

// Prints where rows [from, from + count) of `part` differ from `whole`'s.
int64_t CountOtherBits(const Answer& whole, const Answer& part,
                       int64_t first_row, int64_t num_rows, int64_t row_size,
                       int64_t num_heads) {
  int64_t differing = 0;
  for (int64_t i = 0; i < num_rows * row_size; ++i) {
    const uint16_t a = whole.out[static_cast<size_t>(first_row * row_size + i)];
    const uint16_t b = part.out[static_cast<size_t>(i)];
    if (a == b || ((a | b) & 0x7fff) == 0) continue;
    if (++differing <= 3) {
      std::printf("  row %ld + %ld, number %ld: %04x and %04x\n", first_row,
                  i / row_size, i % row_size, a, b);
    }
  }
  for (int64_t i = 0; i < num_rows * num_heads; ++i) {
    const float a = whole.lse[static_cast<size_t>(first_row * num_heads + i)];
    const float b = part.lse[static_cast<size_t>(i)];
    if (std::memcmp(&a, &b, 4) == 0) continue;
    if (++differing <= 3) {
      std::printf("  row %ld, lse: %.9g and %.9g\n", first_row + i / num_heads,
                  a, b);
    }
  }
  return differing;
}

// The same request whole, in chunks, beside others, and in other KV blocks.
bool Bits(Device& device) {
  std::mt19937_64 random(11);
  int num_failed = 0;
  for (int round = 0; round < 40 && num_failed < 6; ++round) {
    PromptCase prompt = RandomCase(random, 30);
    const int num_tokens = Between(random, 1, 700);
    const int start = Among(random, {0, 5, 128, 200, 3000});
    prompt.requests = {{start, num_tokens, num_tokens}};
    prompt.picks.first_row = 0;
    prompt.picks.end_row = 1 << 30;
    // Else a launch of few rows cuts its keys into parts.
    prompt.batch_invariant = true;
    const auto seed = static_cast<uint64_t>(round);
    const Answer whole = Run(device, prompt, seed);
    const int64_t heads = prompt.num_q_heads();
    const int64_t row_size = heads * prompt.head_dim;
    const int chunk = Among(random, {1, 7, 32, 64, 100, 128, 333});
    int64_t differing = 0;
    for (int row = 0; row < num_tokens; row += chunk) {
      if (chunk == 1 && row % 37 != 0) continue;
      PromptCase part = prompt;
      const int count = std::min(chunk, num_tokens - row);
      part.requests = {{start + row, count, count}};
      // A second request that shares the launch.
      part.requests.push_back({Between(random, 0, 900), 50, 50});
      differing += CountOtherBits(whole, Run(device, part, seed), row, count,
                                  row_size, heads);
    }
    if (differing == 0) continue;
    ++num_failed;
    std::printf("BITS: round %d chunk %d: %ld numbers: %s\n", round, chunk,
                differing, prompt.Describe().c_str());
    std::fflush(stdout);
  }
  std::printf("bits: %d rounds of 40 differ\n", num_failed);
  return num_failed == 0;
}

void Time(Device& device, const PromptCase& prompt, const char* name) {
  PagedPrompt paged(prompt, 3);
  cudaEvent_t start, end;
  cudaEventCreate(&start);
  cudaEventCreate(&end);
  Attend(device, paged);
  device.Wait(name);
  std::vector<float> times;
  for (int i = 0; i < 7; ++i) {
    cudaEventRecord(start, device.queue().stream());
    Attend(device, paged);
    cudaEventRecord(end, device.queue().stream());
    device.Wait(name);
    float ms = 0;
    cudaEventElapsedTime(&ms, start, end);
    times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  const double flops = 4.0 * prompt.head_dim * paged.NumKeysAttend();
  std::printf("%-34s %9.3f ms %7.1f TFLOP/s (best %7.1f)\n", name, times[3],
              flops / times[3] / 1e9, flops / times[0] / 1e9);
  std::fflush(stdout);
}

void TimeAll(Device& device, bool briefly) {
  const auto whole = [](int tokens) {
    return std::vector<PromptRequest>{{0, tokens, tokens}};
  };
  Time(device, {128, 8, 4, 0, whole(2048)}, "2K d128 32:8");
  Time(device, {128, 8, 4, 0, whole(8192)}, "8K d128 32:8");
  Time(device, {128, 8, 4, 0, whole(32768)}, "32K d128 32:8");
  if (!briefly) Time(device, {128, 8, 4, 0, whole(131072)}, "128K d128 32:8");
  Time(device, {128, 8, 4, 0, {{122880, 8192, 8192}}},
       "last 8K of 128K d128 32:8");
  Time(device, {128, 8, 4, 4096, whole(32768)}, "32K window 4096 d128 32:8");
  Time(device, {128, 32, 1, 0, whole(8192)}, "8K d128 32:32");
  Time(device, {64, 8, 4, 0, whole(8192)}, "8K d64 32:8");
  Time(device, {64, 8, 4, 0, whole(32768)}, "32K d64 32:8");
  Time(device, {96, 32, 1, 0, whole(8192)}, "8K d96 32:32");
  const std::vector<PromptRequest> last = {{31744, 1024, 1024}};
  Time(device, {128, 8, 4, 0, last}, "last 1K of 32K");
  Time(device, {128, 8, 4, 0, last, {8, 1.0, false}}, "  lists of all pages");
  Time(device, {128, 8, 4, 0, last, {8, 0.19, false}}, "  19 % of the pages");
  Time(device, {64, 8, 4, 0, last, {8, 0.19, false}}, "  19 %, d64");

  Time(device,
       {128,
        8,
        4,
        0,
        {{0, 1000, 1000}, {8000, 500, 500}, {30000, 64, 64}, {100, 1, 0}}},
       "mixed d128 32:8");
}

int Main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "all";
  Device device;
  bool good = true;
  if (mode == "check" || mode == "all") {
    good = Check(device, argc > 2 ? std::atoi(argv[2]) : 150) && good;
  }
  if (mode == "bits" || mode == "all") good = Bits(device) && good;
  if (mode == "time" || mode == "all") TimeAll(device, argc > 2);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace winnow

int main(int argc, char** argv) { return winnow::Main(argc, argv); }
