#include "backend/conformance/sparse_case.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

// Device memory for the summaries of all requests, by program.
struct Summaries {
  std::vector<LayerSelector> selectors;  // by program
  View bytes;
};

// Where segments of requests are.
struct SegmentRows {
  RowTable table;
  int64_t count = 0;
};

// Memory for what a choice fixes: its segments are those of the table, and
// slots lie in any order.
void AddFixed(TestDevice& device, const SparseCase& sparse,
              const SegmentRows& segments, RandomSource& random,
              LayerSelector& selector) {
  const KvShape& shape = sparse.paged.shape();
  FixedTable& fixed = selector.fixed;
  fixed.layout =
      MakeFixedLayout(*selector.program, {.num_q_heads = shape.num_q_heads(),
                                          .num_kv_heads = shape.num_kv_heads,
                                          .k_dim = shape.k_dim,
                                          .q_dtype = shape.dtype});
  if (fixed.layout.num_lists == 0) return;
  const auto take = [&device](int64_t num_bytes) {
    return device
        .UploadBytes(
            std::vector<std::byte>(static_cast<size_t>(num_bytes), kPoison))
        .data;
  };
  static_assert(kFixedSegmentPages * kPageTokens == kSegmentTokens);
  fixed.segments = segments.table;
  fixed.segment_stride_bytes = fixed.layout.words_bytes * shape.num_kv_heads;
  fixed.words = take(fixed.segment_stride_bytes * segments.count);
  if (fixed.layout.queries_bytes == 0) return;
  const auto num_requests = std::ssize(sparse.paged.requests());
  std::vector<uint32_t> slots(static_cast<size_t>(num_requests));
  std::iota(slots.begin(), slots.end(), 0u);
  std::ranges::shuffle(slots, random.engine());
  std::vector<std::vector<uint32_t>> rows;
  for (const uint32_t slot : slots) rows.push_back({slot});
  fixed.slot_of_request = UploadRows(device, rows, kNoSummaries);
  fixed.slot_stride_bytes = fixed.layout.queries_bytes * shape.num_kv_heads;
  fixed.slots = take(fixed.slot_stride_bytes * num_requests);
}

// As many as a request has of the shortest, in any order.
SegmentRows UploadSegments(TestDevice& device, const SparseCase& sparse,
                           RandomSource& random) {
  std::vector<std::vector<uint32_t>> rows;
  std::vector<uint32_t> places;
  for (const RequestRows& request : sparse.paged.requests()) {
    rows.emplace_back(static_cast<size_t>(
        (request.end_position() + kSegmentTokens - 1) / kSegmentTokens));
    for (size_t i = 0; i < rows.back().size(); ++i) {
      places.push_back(static_cast<uint32_t>(places.size()));
    }
  }
  std::ranges::shuffle(places, random.engine());
  size_t place = 0;
  for (auto& row : rows) {
    for (uint32_t& segment : row) segment = places[place++];
  }
  return {.table = UploadRows(device, rows, kNoSummaries),
          .count = std::ssize(places)};
}

Summaries MakeSummaries(TestDevice& device, const SparseCase& sparse,
                        RandomSource& random) {
  const KvShape& shape = sparse.paged.shape();
  const SegmentRows segments = UploadSegments(device, sparse, random);
  Summaries summaries;
  std::vector<int64_t> offsets;
  int64_t num_bytes = 0;
  for (const SelectProgram& program : sparse.programs) {
    LayerSelector selector;
    selector.program = &program;
    selector.summaries.layout =
        MakeSummaryLayout(program, shape.k_dim, shape.v_dim);
    selector.summaries.segments = segments.table;
    selector.summaries.segment_stride_bytes =
        selector.summaries.layout.head_bytes * shape.num_kv_heads;
    offsets.push_back(num_bytes);
    num_bytes += selector.summaries.segment_stride_bytes * segments.count;
    AddFixed(device, sparse, segments, random, selector);
    summaries.selectors.push_back(selector);
  }
  summaries.bytes = device.UploadBytes(std::vector<std::byte>(
      static_cast<size_t>(std::max<int64_t>(num_bytes, 1)), kPoison));
  for (size_t i = 0; i < offsets.size(); ++i) {
    summaries.selectors[i].summaries.rows = summaries.bytes.data + offsets[i];
  }
  return summaries;
}

void AddGates(TestDevice& device, const SparseCase& sparse,
              Summaries& summaries) {
  const auto upload = [&device](const TestArray& array) {
    return array.values.empty() ? View{} : device.Upload(array);
  };
  for (size_t i = 0; i < sparse.gates.size(); ++i) {
    const TestGate& gate = sparse.gates[i];
    summaries.selectors[i].gate = {.q = upload(gate.q),
                                   .k = upload(gate.k),
                                   .q_norm = upload(gate.q_norm),
                                   .k_norm = upload(gate.k_norm)};
  }
}

// How keys are turned: channel pair i by 2^-i a token.
RotaryAnglesArgs Rotation(TestDevice& device, const SparseCase& sparse) {
  const auto num_requests = std::ssize(sparse.paged.requests());
  const int64_t half =
      (sparse.rotary_dim > 0 ? sparse.rotary_dim : sparse.paged.shape().k_dim) /
      2;
  TestArray frequencies(Dtype::kFloat32, {num_requests, half});
  for (size_t i = 0; i < frequencies.values.size(); ++i) {
    frequencies.values[i] =
        std::exp2(-static_cast<double>(i % static_cast<size_t>(half)));
  }
  TestArray scale(Dtype::kFloat32, {num_requests});
  std::ranges::fill(scale.values, double{sparse.rope_scale});
  return {.inverse_frequencies = device.Upload(frequencies),
          .scale = device.Upload(scale),
          .out = {}};
}

bool HasClusters(const SparseCase& sparse) {
  return std::ranges::any_of(sparse.programs, [](const SelectProgram& program) {
    return program.rows.kind == Kind::kClusters;
  });
}

LayerStep StepOf(TestDevice& device, const SparseCase& sparse,
                 const std::vector<RequestRows>& rows) {
  LayerStep step = sparse.paged.Step(device, rows, 0);
  step.selector = device.Upload(Int32Array(sparse.selectors));
  step.num_prompt_tokens = device.Upload(Int32Array(sparse.prompt_tokens));
  step.num_context_tokens = device.Upload(
      Int32Array(sparse.context_tokens.empty() ? sparse.prompt_tokens
                                               : sparse.context_tokens));
  return step;
}

// The queries of a step's rows; zeros where none are observed.
TestArray QueriesOf(const SparseCase& sparse,
                    const std::vector<RequestRows>& rows) {
  TestArray q = sparse.q;
  q.values.clear();
  const auto row_size = static_cast<size_t>(q.dim(1) * q.dim(2));
  for (size_t r = 0; r < rows.size(); ++r) {
    const size_t first = static_cast<size_t>(rows[r].first_position) * row_size;
    const size_t count = static_cast<size_t>(rows[r].num_tokens) * row_size;
    for (size_t i = first; i < first + count; ++i) {
      q.values.push_back(sparse.IsObserved(r) ? sparse.token_q[r].values[i]
                                              : 0.0);
    }
  }
  q.shape[0] = static_cast<int64_t>(q.values.size() / row_size);
  return q;
}

// Tokens [0, end) of every second request, and of those whose queries are
// observed, in steps of `chunk` tokens; the others are taken on late: one step
// brings all of theirs.
void SummarizeAll(TestDevice& device, const SparseCase& sparse,
                  std::span<const LayerSelector> selectors,
                  const LayerCache& cache, int chunk) {
  std::vector<RequestRows> rows(sparse.paged.requests().size());
  for (bool more = true; more;) {
    more = false;
    std::vector<int32_t> first_token;
    for (size_t r = 0; r < rows.size(); ++r) {
      const int32_t end = sparse.paged.requests()[r].end_position();
      const int32_t begin = rows[r].end_position();
      first_token.push_back(begin);
      if (r % 2 == 0 || sparse.IsObserved(r)) {
        rows[r] = {begin, std::min(end - begin, chunk), 0};
      } else if (begin < end) {
        rows[r] = {end - 1, 1, 0};
      } else {
        rows[r] = {end, 0, 0};
      }
      more = more || rows[r].num_tokens > 0;
    }
    const LayerStep step = StepOf(device, sparse, rows);
    const View first = device.Upload(Int32Array(first_token));
    const RotaryAnglesArgs rotation = Rotation(device, sparse);
    device.backend().Summarize(
        device.queue(), step,
        {.selectors = selectors,
         .first_token = first,
         .q = device.Upload(QueriesOf(sparse, rows)),
         .scale = sparse.scale,
         .inverse_frequencies = rotation.inverse_frequencies,
         .rope_scale = rotation.scale},
        cache);
    if (!HasClusters(sparse)) continue;
    device.backend().ClusterKeys(device.queue(), step,
                                 {.selectors = selectors, .first_token = first},
                                 cache);
  }
}

// Memory for what `num_rows` rows pick with so many times their budgets.
PickLists MakePicks(TestDevice& device, const SparseCase& sparse, int first_row,
                    int num_rows, double budget_times) {
  int64_t capacity = 1;
  for (const SelectProgram& program : sparse.programs) {
    for (const RequestRows& rows : sparse.paged.requests()) {
      capacity =
          std::max(capacity, MaxPicks(WithBudgetTimes(program, budget_times),
                                      rows.end_position()));
    }
  }
  const int64_t heads = sparse.q.dim(1);
  PickLists lists;
  lists.first_row = first_row;
  lists.picks = device.Output(Dtype::kUInt32, {num_rows, heads, capacity, 2});
  lists.num_picks = device.Output(Dtype::kInt32, {num_rows, heads});
  lists.num_lists = device.Output(Dtype::kInt32, {num_rows});
  return lists;
}

// Memory for the lists of `num_rows` rows.
PickLists MakeLists(TestDevice& device, const SparseCase& sparse, int first_row,
                    int num_rows) {
  PickLists lists = MakePicks(device, sparse, first_row, num_rows, 1);
  const int64_t heads = sparse.q.dim(1);
  int64_t num_estimates = 0;
  for (const SelectProgram& program : sparse.programs) {
    for (const RequestRows& rows : sparse.paged.requests()) {
      num_estimates =
          std::max(num_estimates, MaxEstimates(program, rows.end_position()));
    }
  }
  if (num_estimates == 0) return lists;
  lists.estimates =
      device.Output(Dtype::kInt32, {num_rows, heads, num_estimates});
  lists.num_estimates = device.Output(Dtype::kInt32, {num_rows, heads});
  return lists;
}

// Adds the lists' rows to `rows`.
void CollectPicks(TestDevice& device, const PickLists& lists,
                  std::vector<std::vector<std::vector<Pick>>>& rows) {
  const TestArray picks = device.Download(lists.picks);
  const TestArray num_picks = device.Download(lists.num_picks);
  const TestArray num_lists = device.Download(lists.num_lists);
  for (int64_t row = 0; row < lists.num_rows(); ++row) {
    auto& of_row = rows.emplace_back();
    const auto count =
        static_cast<int64_t>(num_lists.values[static_cast<size_t>(row)]);
    for (int64_t list = 0; list < count; ++list) {
      std::vector<Pick>& of_list = of_row.emplace_back();
      const auto length = static_cast<int64_t>(num_picks.at(row, list));
      if (length == kEveryPage) of_list.push_back({0, 0});
      for (int64_t i = 0; i < length; ++i) {
        const int64_t at = ((row * picks.dim(1) + list) * picks.dim(2) + i) * 2;
        of_list.push_back(
            {static_cast<uint32_t>(picks.values[static_cast<size_t>(at)]),
             static_cast<uint32_t>(picks.values[static_cast<size_t>(at) + 1])});
      }
    }
  }
}

void CollectEstimates(TestDevice& device, const PickLists& lists,
                      SparseResult& result) {
  if (lists.estimates.empty()) return;
  const TestArray rows = device.Download(lists.estimates);
  const TestArray num_rows = device.Download(lists.num_estimates);
  const TestArray num_lists = device.Download(lists.num_lists);
  for (int64_t row = 0; row < lists.num_rows(); ++row) {
    auto& of_row = result.estimates.emplace_back();
    const auto count =
        static_cast<int64_t>(num_lists.values[static_cast<size_t>(row)]);
    for (int64_t list = 0; list < count; ++list) {
      std::vector<int32_t>& of_list = of_row.emplace_back();
      for (int64_t i = 0; i < num_rows.at(row, list); ++i) {
        of_list.push_back(static_cast<int32_t>(rows.at(row, list, i)));
      }
    }
  }
}

// Memory for the scores of `num_rows` rows: NaN.
View MakeScores(TestDevice& device, const SparseCase& sparse,
                int64_t num_rows) {
  int64_t num_tokens = 0;
  for (const RequestRows& rows : sparse.paged.requests()) {
    num_tokens = std::max<int64_t>(num_tokens, rows.end_position());
  }
  TestArray scores;
  scores.dtype = Dtype::kFloat32;
  scores.shape = {num_rows, sparse.q.dim(1), num_tokens};
  scores.values.assign(
      static_cast<size_t>(num_rows * sparse.q.dim(1) * num_tokens),
      std::numeric_limits<double>::quiet_NaN());
  return device.Upload(scores);
}

// Adds the rows to `rows`.
void CollectScores(TestDevice& device, const View& scores,
                   std::vector<std::vector<std::vector<float>>>& rows) {
  const TestArray all = device.Download(scores);
  for (int64_t row = 0; row < scores.dim(0); ++row) {
    auto& of_row = rows.emplace_back();
    for (int64_t list = 0; list < scores.dim(1); ++list) {
      std::vector<float>& of_list = of_row.emplace_back();
      for (int64_t token = 0; token < scores.dim(2); ++token) {
        of_list.push_back(static_cast<float>(all.at(row, list, token)));
      }
    }
  }
}

// The KV of all requests up to their last rows.
LayerCache UploadCache(TestDevice& device, const PagedCase& paged) {
  std::vector<int> num_tokens;
  for (const RequestRows& request : paged.requests()) {
    num_tokens.push_back(request.end_position());
  }
  return paged.Cache(device, device.UploadBytes(paged.PoolImage(num_tokens)));
}

// What gates look at besides.
void AddGateInputs(TestDevice& device, const SparseCase& sparse,
                   const LayerStep& step, SelectArgs& select) {
  RotaryAnglesArgs rotation = Rotation(device, sparse);
  rotation.out =
      device.Output(Dtype::kFloat32,
                    {step.num_rows, 2 * rotation.inverse_frequencies.dim(1)});
  device.backend().RotaryAngles(device.queue(), step, rotation);
  select.q_pre = device.Upload(sparse.q_pre);
  select.cos_sin = rotation.out;
}

// Reads a run's picks and its estimates, and merges them.
void AttendBoth(TestDevice& device, LayerStep step, const AttendArgs& read,
                std::span<const LayerSelector> selectors,
                const LayerCache& cache) {
  LayerStep prompt = step;
  prompt.has_decode_rows = false;
  step.has_prefill_rows = false;
  std::array<View, 2> outs, lses;
  std::array<AttendSource, 2> sources;
  for (size_t part = 0; part < 2; ++part) {
    sources[part] = read.sources[0];
    sources[part].selectors = selectors;
    if (part == 1) sources[part].kind = AttendSource::Kind::kEstimates;
    outs[part] = device.Output(
        Dtype::kFloat32, {read.out.dim(0), read.out.dim(1), read.out.dim(2)});
    lses[part] =
        device.Output(Dtype::kFloat32, {read.lse.dim(0), read.lse.dim(1)});
    AttendArgs of_part = read;
    of_part.sources = {&sources[part], 1};
    of_part.out = outs[part];
    of_part.lse = lses[part];
    device.backend().Attend(device.queue(), step, of_part, cache);
  }
  const PickLists& lists = read.sources[0].picks;
  MergeStatesArgs combine = {.outs = outs,
                             .lses = lses,
                             .first_row = lists.first_row,
                             .num_rows = lists.num_rows(),
                             .out = read.out};
  device.backend().MergeStates(device.queue(), step, combine);
  // MergeStates gives none of its own.
  const TestArray a = device.Download(lses[0]), b = device.Download(lses[1]);
  std::vector<float> merged;
  for (int64_t row = lists.first_row; row < lists.first_row + lists.num_rows();
       ++row) {
    for (int64_t head = 0; head < read.lse.dim(1); ++head) {
      const double x = a.at(row, head), y = b.at(row, head);
      merged.push_back(static_cast<float>(
          std::isinf(y) ? x : x + std::log1p(std::exp(y - x))));
    }
  }
  device.backend().Copy(
      device.queue(),
      MakeView(reinterpret_cast<std::byte*>(merged.data()), Dtype::kFloat32,
               {lists.num_rows(), read.lse.dim(1)}),
      read.lse.Slice(lists.first_row, lists.num_rows()));
  device.Download(read.lse);  // And so waits for the copy.
  device.backend().Attend(device.queue(), prompt, read, cache);
}

struct SelectCall {
  const LayerStep& step;
  SelectArgs& args;
  const LayerCache& cache;
  const SlotTable& slots;
};

// Chooses for the rows of call.args.picks.
void ChooseRows(TestDevice& device, const SparseCase& sparse,
                const SparseRun& run, const SelectCall& call,
                SparseResult& result) {
  const PickLists& picks = call.args.picks;
  const bool asks_next = run.next_times > 0;
  if (asks_next) {
    call.args.next = {.lists = MakePicks(device, sparse, picks.first_row,
                                         picks.num_rows(), run.next_times),
                      .budget_times = run.next_times,
                      .slots = &call.slots};
  }
  if (run.asks_scores) {
    call.args.scores = MakeScores(device, sparse, picks.num_rows());
  }
  device.backend().Select(device.queue(), call.step, call.args, call.cache);
  if (run.asks_scores) {
    CollectScores(device, call.args.scores, result.scores);
  }
  CollectPicks(device, picks, result.picks);
  if (asks_next) CollectPicks(device, call.args.next.lists, result.next);
  CollectEstimates(device, picks, result);
}

// Without selectors and what Select writes. All summaries are there; it is told
// so of any number of tokens before the step, none among them.
SelectArgs InputsOf(TestDevice& device, const SparseCase& sparse,
                    const LayerStep& step) {
  SelectArgs select;
  select.q = device.Upload(sparse.q);
  select.scale = sparse.scale;
  if (!sparse.gates.empty()) AddGateInputs(device, sparse, step, select);
  std::vector<int32_t> first_token;
  for (const RequestRows& rows : sparse.paged.requests()) {
    first_token.push_back(rows.first_position *
                          static_cast<int32_t>(first_token.size() % 3) / 2);
  }
  select.first_token = device.Upload(Int32Array(first_token));
  return select;
}

}  // namespace

PickLists MakeKeptLists(TestDevice& device, const SparseCase& sparse) {
  const auto num_rows = static_cast<int>(sparse.q.dim(0));
  PickLists lists = MakeLists(device, sparse, 0, num_rows);
  lists.num_kept =
      device.Output(Dtype::kInt32, {sparse.q.dim(0), sparse.q.dim(1)});
  return lists;
}

SparseCase::SparseCase(const KvShape& shape, std::vector<RequestRows> requests,
                       RandomSource& random)
    : paged(shape, std::move(requests), random) {
  q = RandomArray(shape.dtype,
                  {paged.num_rows(), shape.num_q_heads(), shape.k_dim}, random);
  scale = 2.0f / std::sqrt(static_cast<float>(shape.k_dim));
}

const SelectProgram* SparseCase::ProgramOf(size_t request, int32_t row) const {
  if (selectors[request] < 0) return nullptr;
  const SelectProgram& program =
      programs[static_cast<size_t>(selectors[request])];
  const RequestRows& rows = paged.requests()[request];
  const bool is_prompt = row < rows.num_prefill_rows;
  if (is_prompt && !program.in_prompt) return nullptr;
  const int32_t length =
      is_prompt ? prompt_tokens[request] : rows.first_position + row + 1;
  return length < program.dense_len ? nullptr : &program;
}

bool SparseCase::IsObserved(size_t request) const {
  const int32_t index = selectors[request];
  return index >= 0 && programs[static_cast<size_t>(index)].fixed.kind ==
                           FixedChoice::Kind::kObserved;
}

int SparseCase::NumLists(const SelectProgram& program) const {
  return program.scope == Scope::kQHead ? paged.shape().num_q_heads()
                                        : paged.shape().num_kv_heads;
}

std::pair<int, int> SparseCase::HeadsOf(const SelectProgram& program,
                                        int list) const {
  const KvShape& shape = paged.shape();
  if (program.scope == Scope::kLayer) return {0, shape.num_q_heads()};
  const int heads = program.scope == Scope::kQHead ? 1 : shape.group_heads;
  return {list * heads, (list + 1) * heads};
}

SparseCase RandomSparseCase(RandomSource& random, int max_position,
                            uint32_t features) {
  const KvShape shape = RandomKvShape(random);
  SparseCase sparse(shape, RandomRequests(random, max_position), random);
  const int64_t num_programs = random.Between(1, 3);
  for (int64_t i = 0; i < num_programs; ++i) {
    sparse.programs.push_back(RandomProgram(shape.dtype, features, random));
  }
  for (const RequestRows& rows : sparse.paged.requests()) {
    sparse.selectors.push_back(
        static_cast<int32_t>(random.Between(-1, num_programs - 1)));
    sparse.prompt_tokens.push_back(rows.first_position + rows.num_prefill_rows);
  }
  return sparse;
}

SparseResult RunSparse(TestDevice& device, const SparseCase& sparse,
                       const SparseRun& run) {
  const LayerCache cache = UploadCache(device, sparse.paged);
  RandomSource random(7);  // where segments lie: the same in every run
  Summaries summaries = MakeSummaries(device, sparse, random);
  for (LayerSelector& selector : summaries.selectors) {
    selector.keeps_lists = run.keeps_lists;
    selector.reuse_layer = run.reuse_layer;
  }
  AddGates(device, sparse, summaries);
  SummarizeAll(device, sparse, summaries.selectors, cache,
               run.summarize_tokens);
  if (run.on_summaries) run.on_summaries(summaries.selectors, cache);
  LayerStep step = StepOf(device, sparse, sparse.paged.requests());
  step.layer = run.layer;
  SelectArgs select = InputsOf(device, sparse, step);
  select.selectors = summaries.selectors;
  TestArray shares(Dtype::kFloat32, {sparse.q.dim(0)});
  std::ranges::fill(shares.values, 0.25);
  select.read_shares = device.Upload(shares);
  AttendSource source;
  AttendArgs read;
  read.q = select.q;
  read.sources = {&source, 1};
  read.scale = sparse.scale;
  read.out = device.Output(
      sparse.paged.shape().dtype,
      {sparse.q.dim(0), sparse.q.dim(1), sparse.paged.shape().v_dim});
  read.lse = device.Output(Dtype::kFloat32, {sparse.q.dim(0), sparse.q.dim(1)});
  read.ahead = device.Upload(TestArray(Dtype::kFloat32, {3, 70}), 5);
  SlotTable slots;
  slots.num_segments = device.Upload(Int32Array(run.num_segments));
  SparseResult result;
  for (int row = 0; row < step.num_rows; row += run.select_rows) {
    const int num_rows = std::min(step.num_rows - row, run.select_rows);
    select.picks = run.lists.picks.empty()
                       ? MakeLists(device, sparse, row, num_rows)
                       : run.lists.Rows(row, num_rows);
    ChooseRows(device, sparse, run, {step, select, cache, slots}, result);
    if (run.read_all_pages) continue;
    source.kind = AttendSource::Kind::kPicks;
    source.picks = select.picks;
    if (!select.picks.estimates.empty()) {
      AttendBoth(device, step, read, summaries.selectors, cache);
      continue;
    }
    device.backend().Attend(device.queue(), step, read, cache);
  }
  if (run.read_all_pages) {
    device.backend().Attend(device.queue(), step, read, cache);
  }
  result.summaries = device.DownloadBytes(summaries.bytes);
  result.out = device.Download(read.out);
  result.lse = device.Download(read.lse);
  result.read_shares = device.Download(select.read_shares);
  return result;
}

}  // namespace winnow
