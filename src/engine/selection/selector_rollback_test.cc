// Rolled back and replayed is as never having gone there: a sequence that ran
// on with other tokens, of which KV and segments were truncated, has the
// summaries, picks, KV and logits of one that did not, bit by bit.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "backend/contract/cluster_segment.h"
#include "backend/cpu/cpu_backend.h"
#include "engine/run/runner.h"
#include "engine/testing/hooked_backend.h"
#include "engine/testing/null_observer.h"
#include "model/forward/rope.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Every kind of what is kept. The ends of segments (of clusters: 64 tokens, of
// the pool: 1,024) lie where the sequence goes astray.
const std::vector<std::string> kSpecs = {
    "mean:budget=64,block=16,recent=16",
    "mean:budget=64,block=64,recent=16,summaries=fp8",
    "quest:budget=64,block=16,dense_layers=none",
    "quest:budget=64,block=16,dense_layers=none,summaries=fp8",
    "arkvale:budget=64,block=8,sink=8,recent=8,dense_layers=none",
    "infllm-v2:kernel=32,stride=16,block=32,budget=96,sink=0,recent=0,"
    "dense_len=0",
    "seerattention-r:budget=64,block=16",
    "clusterkv:budget=64,segment=64,cluster=8,sink=4,dense_layers=none",
    "retroinfer:budget=16,estimate=64,segment=64,cluster=8,recent=8",
    "snapkv:budget=60,window=24,kernel=3",
    "shadowkv:budget=32,block=8,outliers=32,recent=8"};

constexpr int kNumPrompt = 1000;
constexpr int kNumTokens = 1080;

// Tokens [first, end) that are computed with other tokens, and given up.
struct Detour {
  int first = 0, end = 0;
};
// Within the prompt, within a page, and across the ends of segments.
constexpr Detour kDetours[] = {{500, 790}, {1003, 1006}, {1010, 1047}};

// What a step said of itself, by layer.
using Bytes = std::vector<std::byte>;

void Append(Bytes& to, const void* from, int64_t num_bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  to.insert(to.end(), begin, begin + num_bytes);
}

class SelectorRollbackTest
    : public testing::TestWithParam<std::tuple<std::string, Dtype>> {
 protected:
  static constexpr int kMaxLength = 1100, kMaxRows = 300;

  void SetUp() override {
    golden_ = ReadTinyCase("llama_yarn");  // of the longest context
    WriteTinyModel(golden_, folder_.path(), {.dtype = std::get<1>(GetParam())});
    model_ = std::make_unique<Model>(Model::Load(folder_.path(), {}).value());
    WriteTinyGates(model_->config(), folder_.path());
    const ModelConfig& config = model_->config();
    cache_ = DeviceCache::Create(
                 backend_,
                 {.format = MakeHeadBlockFormat(
                      model_->dtypes().kv, config.head_dim, config.head_dim),
                  .num_layers = config.num_layers,
                  .num_kv_heads = config.num_kv_heads,
                  .num_kv_blocks = kNumKvBlocks,
                  .max_requests = 2,
                  .max_pages_per_request = kNumKvBlocks,
                  .num_table_pages = kNumKvBlocks})
                 .value();
    selectors_ =
        SelectorSet::Create(
            backend_, *model_,
            {.specs = {std::get<0>(GetParam())},
             .max_model_len = kMaxLength,
             .max_requests = 2,
             .max_rows = kMaxRows,
             .room = {.num_kv_blocks = kNumKvBlocks, .max_sequences = 2}})
            .value();
    runner_ = Runner::Create(backend_, *model_, *cache_, *selectors_,
                             /*far=*/{},
                             {.max_rows = kMaxRows,
                              .max_requests = 2,
                              .max_model_len = kMaxLength,
                              .batch_invariant = true})
                  .value();
    backend_.post_select = [this](const SelectArgs& args) { See(args); };
  }

  // A text of which tokens from `astray` on are others.
  std::unique_ptr<Sequence> Text(SequenceId id, int astray) {
    const auto token = [&](int i) {
      return TinyToken(golden_, i < astray ? 0 : 5, i);
    };
    Request request;
    for (int i = 0; i < kNumPrompt; ++i) request.prompt.push_back(token(i));
    request.max_tokens = kMaxLength - kNumPrompt;
    request.sampling.temperature = 0;
    request.selector = 0;
    RequestRope rope;
    const RopeConfig& config = model_->config().rope;
    rope.inverse_frequencies.resize(static_cast<size_t>(config.rotary_dim / 2));
    RopeFrequencies(config, kMaxLength, rope.inverse_frequencies, &rope.scale);
    auto text = std::make_unique<Sequence>(id, std::move(request),
                                           std::move(rope), &nobody_);
    for (int i = kNumPrompt; i < kNumTokens; ++i) {
      GeneratedToken drawn;
      drawn.token_id = token(i);
      FinishReason reason;
      text->Take(drawn, &reason);
    }
    return text;
  }
  StepItem Rows(SequenceId id, int first, int end, bool samples) const {
    return {.sequence = id,
            .first_token = first,
            .num_tokens = end - first,
            .first_layer = 0,
            .end_layer = model_->config().num_layers,
            .samples = samples};
  }

  // Computes tokens [first, end) in steps, and keeps what each step saw.
  void Play(Sequence& text, int first, int end, int step_rows) {
    const SequenceId id = text.id();
    for (int begin = first; begin < end; begin += step_rows) {
      context_ = std::min(end, begin + step_rows);
      const StepItem item = Rows(id, begin, context_, /*samples=*/true);
      std::optional<Reservation> pages =
          kv_.Reserve(std::vector<Growth>{{id, context_ - kv_.num_tokens(id)}});
      ASSERT_TRUE(pages.has_value());
      pages->Commit();
      selectors_->Grow(runner_->queue(), 0, id, context_);
      const StepOutput output =
          runner_->Run({{item}}, kv_, [&](SequenceId) { return &text; })
              .value();
      const GeneratedToken& drawn = output.drawn.at(0).token;
      Append(seen_, &drawn.token_id, sizeof(drawn.token_id));
      Append(seen_, &drawn.logprob, sizeof(drawn.logprob));
      text.Land(item, model_->config().num_layers);
      kv_.Seal(id, context_);
      selectors_->Seal(0, id, context_);
    }
  }

  // Everything that stayed of a sequence: what its steps saw, and its KV.
  Bytes Live(SequenceId id, bool goes_astray) {
    kv_.Open(id);
    selectors_->Open(0, id);
    const std::unique_ptr<Sequence> text = Text(id, kNumTokens);
    Bytes stayed;
    int done = 0;
    const auto go_on = [&](int end) {
      seen_.clear();
      Play(*text, done, end, done < kNumPrompt ? kMaxRows : 7);
      stayed.insert(stayed.end(), seen_.begin(), seen_.end());
      done = end;
    };
    for (const auto& [first, end] : kDetours) {
      if (done < kNumPrompt && first > kNumPrompt) go_on(kNumPrompt);
      go_on(first);
      if (!goes_astray) continue;
      const std::unique_ptr<Sequence> other = Text(id, first);
      other->Land(Rows(id, 0, first, false), model_->config().num_layers);
      Play(*other, first, end, first < kNumPrompt ? 150 : 10);
      kv_.Truncate(id, first);
      selectors_->Truncate(0, id, first);
      EXPECT_EQ(selectors_->num_summarized(0, id), first);
    }
    go_on(kNumTokens);
    AppendKv(id, stayed);
    return stayed;
  }

  void AppendKv(SequenceId id, Bytes& to) const {
    for (const LayerCache& layer : cache_->layers()) {
      const HeadBlockFormat& format = layer.format;
      for (int token = 0; token < kNumTokens; ++token) {
        const KvBlockId page =
            kv_.pages(id)[static_cast<size_t>(token / kPageTokens)];
        for (int head = 0; head < layer.num_kv_heads; ++head) {
          const std::byte* slice = layer.layer_blocks +
                                   page.value() * layer.kv_block_stride_bytes +
                                   head * format.head_block_bytes;
          const int at = token % kPageTokens;
          const int k_bytes = format.k_dim * DtypeBytes(format.k);
          const int v_bytes = format.v_dim * DtypeBytes(format.v);
          Append(to, slice + at * k_bytes, k_bytes);
          Append(to, slice + format.v_offset_bytes + at * v_bytes, v_bytes);
        }
      }
    }
  }

  // Lists and estimates of the run's rows, then what is kept.
  void See(const SelectArgs& args) {
    const PickLists& lists = args.picks;
    for (int row = lists.first_row; row < lists.first_row + lists.num_rows();
         ++row) {
      Append(seen_, &lists.NumLists(row), sizeof(int32_t));
      for (int list = 0; list < lists.NumLists(row); ++list) {
        const int32_t count = lists.NumPicks(row, list);
        Append(seen_, &count, sizeof(count));
        if (count > 0) {
          Append(seen_, lists.List(row, list),
                 count * static_cast<int64_t>(sizeof(Pick)));
        }
        if (lists.estimates.empty()) continue;
        Append(seen_, lists.Estimates(row, list),
               lists.num_estimates.Row<int32_t>(row - lists.first_row)[list] *
                   static_cast<int64_t>(sizeof(int32_t)));
      }
    }
    const LayerSelector& selector = args.selectors[0];
    if (selector.program == nullptr) return;
    for (int head = 0; head < model_->config().num_kv_heads; ++head) {
      SeeSummaries(selector, head);
      SeeFixed(selector, head);
    }
  }
  void SeeSummaries(const LayerSelector& selector, int head) {
    const SummaryTable& table = selector.summaries;
    const SelectProgram& program = *selector.program;
    if (table.layout.head_bytes == 0) return;
    if (program.rows.kind == SummaryRows::Kind::kClusters) {
      for (int64_t s = 0; s < context_ / program.rows.tokens; ++s) {
        SeeClusters(ClusterSegmentOf(table, program.rows, 0, head, s), table,
                    head);
      }
      return;
    }
    const SummaryRows* levels[] = {&program.rows, &program.normalizer};
    for (int level = 0; level < 2; ++level) {
      if (levels[level]->kind == SummaryRows::Kind::kNone) continue;
      const int64_t count = NumVisibleRows(*levels[level], context_);
      for (int64_t row = 0; row < count; ++row) {
        Append(seen_, table.Row(0, head, level, row),
               table.layout.levels[static_cast<size_t>(level)].row_bytes);
      }
    }
  }
  // A cluster without tokens is nothing.
  void SeeClusters(const ClusterSegment& segment, const SummaryTable& table,
                   int head) {
    for (int c = 0; c < segment.num_clusters; ++c) {
      const std::span<const uint16_t> tokens = segment.TokensOf(c);
      Append(seen_, tokens.data(), std::ssize(tokens) * 2);
      if (tokens.empty()) continue;
      Append(seen_, table.Row(0, head, 0, segment.first_row + c),
             table.layout.levels[0].row_bytes);
    }
  }
  // What a choice has fixed, once it is made.
  void SeeFixed(const LayerSelector& selector, int head) {
    const FixedTable& fixed = selector.fixed;
    if (fixed.layout.num_lists == 0 || context_ <= kNumPrompt) return;
    for (int list = 0; list < fixed.layout.num_lists; ++list) {
      const FixedTokens tokens = fixed.Tokens(0, head, list);
      for (int64_t page = 0; page < PagesFor(kNumPrompt); ++page) {
        Append(seen_, &tokens[page], sizeof(uint32_t));
      }
    }
  }

  static constexpr int kNumKvBlocks = 80;
  const TemporaryFolder folder_{"selector_rollback"};
  HookedBackend backend_{MakeCpuBackend({.num_threads = 2})};
  TinyCase golden_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<DeviceCache> cache_;
  KvCache kv_{kNumKvBlocks};
  std::unique_ptr<SelectorSet> selectors_;
  std::unique_ptr<Runner> runner_;
  NullObserver nobody_;
  int context_ = 0;  // behind the step
  Bytes seen_;
};

TEST_P(SelectorRollbackTest, ReplayedIsAsNeverHavingGoneThere) {
  const Bytes straight = Live(SequenceId(1), /*goes_astray=*/false);
  const Bytes replayed = Live(SequenceId(2), /*goes_astray=*/true);
  EXPECT_GT(straight.size(), size_t{kNumTokens});
  ASSERT_EQ(replayed.size(), straight.size());
  EXPECT_TRUE(replayed == straight);
  // Until here neither had what the other has left.
  for (const SequenceId id : {SequenceId(1), SequenceId(2)}) {
    kv_.Close(id);
    selectors_->Close(0, id);
  }
  EXPECT_EQ(kv_.num_free_pages(), kv_.num_pages());
  for (const KvCache* kept :
       {selectors_->segments(0), selectors_->fixed_queries(0),
        selectors_->fixed_words(0)}) {
    if (kept == nullptr) continue;
    EXPECT_EQ(kept->num_free_pages(), kept->num_pages());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SelectorRollbackTest,
                         testing::Combine(testing::ValuesIn(kSpecs),
                                          testing::Values(Dtype::kFloat32,
                                                          Dtype::kBFloat16)),
                         [](const auto& instance) {
                           return fmt::format(
                               "{}_{}", instance.index / 2,
                               DtypeName(std::get<1>(instance.param)));
                         });

}  // namespace
}  // namespace winnow
