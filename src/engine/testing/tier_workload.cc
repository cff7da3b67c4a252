#include "engine/testing/tier_workload.h"

#include <algorithm>
#include <array>
#include <random>

#include "base/check.h"

namespace winnow {
namespace {

class Drawer {
 public:
  Drawer(const TierModels& models, uint64_t seed)
      : models_(models), random_(seed) {}

  TierWorkload Draw(const TierWorkloadKind& kind);

 private:
  static constexpr int kMaxLength = 192, kMaxDeepLength = 320;

  int Below(int end) {
    return static_cast<int>(random_() % static_cast<uint64_t>(end));
  }
  template <typename T, size_t n>
  T OneOf(const std::array<T, n>& values) {
    return values[static_cast<size_t>(Below(static_cast<int>(n)))];
  }

  // Texts of a family begin alike.
  std::vector<int32_t> Text(int family, int num_shared, int num_tokens);
  Prefix AnyPrefix();
  TierRequest AnyFork(const Prefix& prefix);
  TierRequest AnyRequest(bool all_long, bool may_end);
  // As long as the deep model's may be; what it reads may lie in slots.
  TierRequest AnyLongRequest();
  void DrawSampling(Request& request);
  // That some end before their time.
  void DrawEnd(TierRequest& request);
  // Whether both pools have room for them is left to them. Some ask again.
  void AddLongRequests(TierWorkload& workload);
  // From less than a page a layer to all that is picked; forks have little to
  // give up.
  std::optional<CacheBudget> AnyBudget(bool has_prefix);
  RestoreRates AnyRates();
  HintOptions AnyHints();
  void DrawOptions(int64_t most_pages, TierWorkload& workload);

  const TierModels& models_;
  std::mt19937_64 random_;
};

std::vector<int32_t> Drawer::Text(int family, int num_shared, int num_tokens) {
  std::vector<int32_t> tokens;
  const int own = 3 * family + 5 + Below(3);
  for (int i = 0; i < num_tokens; ++i) {
    const int first = i < num_shared ? 3 * family : own;
    tokens.push_back(TinyToken(models_.tiny(), first, i));
  }
  return tokens;
}

Prefix Drawer::AnyPrefix() {
  Prefix prefix;
  prefix.tokens = Text(7, 0, 20 + Below(60));
  prefix.max_length = static_cast<int>(prefix.tokens.size()) + 60 + Below(50);
  // None that acts in prompts, by their length: it would read a prefix
  // otherwise than a request that computes it by itself.
  prefix.selector = OneOf(std::array{-1, 0, 3, 4, 6, 8, 12, 13});
  return prefix;
}

TierRequest Drawer::AnyFork(const Prefix& prefix) {
  Request request;
  request.prompt = prefix.tokens;
  const std::vector<int32_t> more = Text(Below(2), 0, 1 + Below(20));
  request.prompt.insert(request.prompt.end(), more.begin(), more.end());
  request.num_question_tokens = Below(static_cast<int>(more.size()) + 1);
  request.selector = prefix.selector;
  request.max_tokens =
      prefix.max_length - static_cast<int>(request.prompt.size());
  if (Below(2) == 0) request.max_tokens = 1 + Below(request.max_tokens);
  DrawSampling(request);
  TierRequest fork = {.request = std::move(request), .on_prefix = true};
  DrawEnd(fork);
  return fork;
}

TierRequest Drawer::AnyRequest(bool all_long, bool may_end) {
  Request request;
  const bool is_long =
      all_long || Below(3) == 0;  // and grows into others' room
  const int num_tokens = is_long ? 3 + Below(60) : 40 + Below(85);
  request.prompt = Text(Below(2), 64, num_tokens);
  request.num_question_tokens = Below(2) * Below(std::min(num_tokens, 20));
  const int num_selectors = static_cast<int>(kTierSelectors.size());
  request.selector = std::max(-1, Below(num_selectors + 3) - 3);
  request.max_tokens = is_long ? 70 + Below(60) : 1 + Below(30);
  request.cache_prefix = Below(5) > 0;
  DrawSampling(request);
  TierRequest drawn = {.request = std::move(request)};
  if (may_end) DrawEnd(drawn);
  return drawn;
}

TierRequest Drawer::AnyLongRequest() {
  Request request;
  request.prompt = Text(Below(4) / 3, 160, 190 + Below(kMaxDeepLength - 230));
  request.num_question_tokens = Below(2) * Below(40);
  request.selector = OneOf(std::array{0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 12, 13});
  request.max_tokens = 1 + Below(40);
  DrawSampling(request);
  TierRequest drawn = {.request = std::move(request)};
  DrawEnd(drawn);
  return drawn;
}

void Drawer::DrawSampling(Request& request) {
  request.sampling.temperature = Below(2) == 0 ? 0.0f : 1.5f;
  request.sampling.repetition_penalty = Below(4) == 0 ? 1.3f : 1.0f;
  request.sampling.seed = random_();
  request.sampling.logprobs = 3;
}

void Drawer::DrawEnd(TierRequest& request) {
  const int kind = Below(6);
  if (kind == 0) request.stops_at = 1 + Below(request.request.max_tokens);
  if (kind == 1) {
    for (int first = 0; first < 4; ++first) {
      request.request.end_token_ids.push_back(
          TinyToken(models_.tiny(), first, Below(80)));
    }
  }
}

void Drawer::AddLongRequests(TierWorkload& workload) {
  std::vector<int32_t> prompt;
  for (int i = 1 + Below(3); i > 0; --i) {
    const int at = Below(static_cast<int>(workload.requests.size()) + 1);
    TierRequest drawn = AnyLongRequest();
    if (!prompt.empty() && Below(3) > 0) drawn.request.prompt = prompt;
    prompt = drawn.request.prompt;
    workload.requests.insert(workload.requests.begin() + at, std::move(drawn));
  }
}

std::optional<CacheBudget> Drawer::AnyBudget(bool has_prefix) {
  if (has_prefix || Below(2) == 0) {
    return CacheBudget{.tokens = 8 << Below(has_prefix ? 3 : 5)};
  }
  if (Below(3) == 0) return CacheBudget{.times = 1.5};
  return std::nullopt;
}

// Nothing of the host is worth a copy, or everything.
RestoreRates Drawer::AnyRates() {
  if (Below(6) > 0) return {};
  return {.link_bytes_per_second = 1,
          .computing = {.row_ms = 1e-6, .most = {.rows = 1e9, .reads = 1e18}},
          .max_step_rows = 1 << 20};
}

// None, those that the engine asks for by itself, and such as are fetched.
HintOptions Drawer::AnyHints() {
  if (Below(3) == 0) return {};
  return {.budget_times = 1 + static_cast<double>(Below(5)),
          .least_age =
              OneOf(std::array{0, 0, 1, 4, int{kEmptyAge}, int{kNoHintFetch}})};
}

// To three pages at most.
void Shorten(TierRequest& shortened) {
  Request& request = shortened.request;
  request.prompt.resize(std::min<size_t>(request.prompt.size(), 60));
  request.num_question_tokens = std::min(
      request.num_question_tokens, static_cast<int>(request.prompt.size()) - 1);
  request.max_tokens = std::min(request.max_tokens, 30);
}

void Drawer::DrawOptions(int64_t most_pages, TierWorkload& workload) {
  const bool is_deep = workload.is_deep;
  const int64_t page_bytes = models_.PageBytes(is_deep);
  constexpr std::array<int, 4> kHostPages = {1, 4, 12, 40};
  workload.options = {
      .max_model_len = is_deep ? kMaxDeepLength : kMaxLength,
      .max_num_seqs = 2 + Below(4),
      .max_num_batched_tokens = OneOf(std::array{32, 40, 70, 2048}),
      .device_kv_bytes = (most_pages + Below(4)) * page_bytes,
      .host_kv_bytes =
          kHostPages[static_cast<size_t>(is_deep ? 2 + Below(2) : Below(4))] *
          page_bytes,
      .prefix_caching = Below(4) > 0,
      .layers_per_step = Below(3) == 0 ? 1 : 0};
  workload.options.batch_invariant = true;
  workload.options.selectors = {kTierSelectors.begin(), kTierSelectors.end()};
  workload.options.cache_budget = AnyBudget(workload.prefix.has_value());
  workload.options.max_table_sharers =
      1 + static_cast<int>(workload.requests.size() % 3);
  workload.options.restore_rates = AnyRates();
  workload.options.hints = AnyHints();
  workload.options.write_behind_share =
      OneOf(std::array{0.0, 1.0 / 16, 0.5, 1.0});
}

TierWorkload Drawer::Draw(const TierWorkloadKind& kind) {
  TierWorkload workload;
  workload.is_deep = kind.is_deep;
  if (Below(4) == 0 && !kind.is_deep) workload.prefix = AnyPrefix();
  workload.mean_gap = 1 + Below(6);
  workload.forces = Below(2) == 0;
  workload.demotes = !kind.is_whole && (workload.prefix || Below(2) == 0);
  workload.expects_little = Below(2) == 0;
  // Nobody is preempted but for want of pages.
  const bool all_long = workload.expects_little && !workload.forces;
  if (all_long) workload.mean_gap = 1;
  int64_t most_pages = 1;
  for (int i = 3 + Below(8); i > 0; --i) {
    const bool is_fork = workload.prefix && Below(2) == 0;
    TierRequest drawn = is_fork
                            ? AnyFork(*workload.prefix)
                            : AnyRequest(all_long, kind.is_whole || !all_long);
    if (kind.is_deep) Shorten(drawn);
    if (!is_fork) {
      const Request& request = drawn.request;
      most_pages = std::max(most_pages, PagesFor(std::ssize(request.prompt) +
                                                 request.max_tokens));
    }
    workload.requests.push_back(std::move(drawn));
  }
  if (workload.prefix) {
    most_pages += PagesFor(std::ssize(workload.prefix->tokens)) +
                  PagesFor(workload.prefix->max_length);
  }
  if (kind.is_deep) {
    AddLongRequests(workload);
    most_pages = std::max<int64_t>(most_pages, 5) + Below(3);
  }
  DrawOptions(most_pages, workload);
  if (kind.is_whole) {
    workload.options.host_kv_bytes = 0;
    workload.options.cache_budget.reset();
    return workload;
  }
  if (kind.trouble || Below(2) == 0) workload.num_disk_slots = 4 << Below(5);
  if (kind.trouble) {
    workload.trouble = *kind.trouble;
  } else if (workload.num_disk_slots > 0 && Below(3) == 0) {
    workload.trouble = static_cast<DiskTrouble>(Below(kNumDiskTroubles));
  }
  return workload;
}

}  // namespace

FolderFaults FaultsOf(DiskTrouble trouble) {
  switch (trouble) {
    case DiskTrouble::kReadErrors:
      return {.read_error = 0.3};
    case DiskTrouble::kWriteErrors:
      return {.write_error = 0.3};
    case DiskTrouble::kShortTransfers:
      return {.short_transfer = 0.5};
    case DiskTrouble::kFull:
      return {.is_full = true};
    case DiskTrouble::kReadOnly:
      return {.is_read_only = true};
    default:
      return {};
  }
}

TierWorkload DrawTierWorkload(const TierModels& models,
                              const TierWorkloadKind& kind, uint64_t seed) {
  return Drawer(models, seed).Draw(kind);
}

}  // namespace winnow
