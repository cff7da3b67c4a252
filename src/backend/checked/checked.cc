#include "backend/checked/checked.h"

#include <utility>
#include <vector>

#include "backend/checked/disagreement.h"
#include "backend/checked/twin_memory.h"

namespace winnow {
namespace {

class CheckedQueue final : public Queue {
 public:
  CheckedQueue(std::unique_ptr<Queue> of_subject,
               std::unique_ptr<Queue> of_reference)
      : subject(std::move(of_subject)), reference(std::move(of_reference)) {}
  static CheckedQueue& Of(Queue& queue) {
    return static_cast<CheckedQueue&>(queue);
  }

  const std::unique_ptr<Queue> subject, reference;
};

// Shared with the buffers, which may outlive the backend.
using SharedTwins = std::shared_ptr<TwinMemory>;

class CheckedBackend final : public Backend {
 public:
  CheckedBackend(std::unique_ptr<Backend> subject,
                 std::unique_ptr<Backend> reference)
      : subject_(std::move(subject)),
        reference_(std::move(reference)),
        attributes_(subject_->attributes()),
        twins_(std::make_shared<TwinMemory>()),
        disagreement_(*subject_, *twins_) {
    CHECK(reference_->attributes().device_is_host, "reference={}",
          reference_->attributes().name);
    attributes_.name = "checked " + attributes_.name;
    // Nobody may write past the twins.
    attributes_.device_is_host = false;
    // Each op is waited for, to be compared.
    attributes_.runs_behind = false;
  }

  const BackendAttributes& attributes() const override { return attributes_; }

  Result<Buffer> Allocate(Tier tier, size_t num_bytes,
                          std::string_view purpose) override {
    ASSIGN_OR_RETURN(Buffer real, subject_->Allocate(tier, num_bytes, purpose));
    if (tier != Tier::kDevice || num_bytes == 0) return real;
    ASSIGN_OR_RETURN(Buffer twin,
                     reference_->Allocate(tier, num_bytes, purpose));
    std::byte* data = real.data();
    twins_->Add(data, std::move(twin));
    auto owner = std::make_shared<Buffer>(std::move(real));
    return Buffer(tier, data, num_bytes,
                  [owner, twins = twins_](std::byte* freed, size_t) {
                    twins->Remove(freed);
                  });
  }

  std::unique_ptr<Queue> MakeQueue() override {
    return std::make_unique<CheckedQueue>(subject_->MakeQueue(),
                                          reference_->MakeQueue());
  }
  Event Record(Queue& queue) override {
    return subject_->Record(*CheckedQueue::Of(queue).subject);
  }
  Status Wait(Event event, std::chrono::milliseconds timeout) override {
    RETURN_IF_ERROR(subject_->Wait(event, timeout));
    if (disagreement_.first().empty()) return Ok{};
    return MakeError(ErrorCode::kCorrupt, "{} and {} disagree: {}",
                     subject_->attributes().name, reference_->attributes().name,
                     disagreement_.first());
  }

  // What goes to the host comes from the subject; the reference's copy of it
  // would be the same memory.
  void Copy(Queue& queue, const View& from, const View& to) override {
    subject_->Copy(*CheckedQueue::Of(queue).subject, from, to);
    const View twin = twins_->Of(to);
    if (twin.data == to.data) return;
    reference_->Copy(*CheckedQueue::Of(queue).reference, twins_->Of(from),
                     twin);
  }

  // A recorded op could not be compared.
  void Replay(Queue&, std::span<const std::byte>,
              const std::function<void()>& enqueue) override {
    enqueue();
  }

  // Both backends' time.
  Result<std::vector<LaunchTime>> Profile(
      Queue& queue, const std::function<void()>& enqueue) override {
    return subject_->Profile(*CheckedQueue::Of(queue).subject, enqueue);
  }

  void Embed(Queue& queue, const EmbedArgs& args) override {
    EmbedArgs twin = args;
    Translate({&twin.token_ids, &twin.table, &twin.out});
    Both("Embed", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.Embed(on, checked ? args : twin);
    });
    disagreement_.CompareView("out", args.out);
  }
  void RmsNorm(Queue& queue, const RmsNormArgs& args) override {
    RmsNormArgs twin = args;
    Translate({&twin.x, &twin.weight, &twin.out});
    Both("RmsNorm", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.RmsNorm(on, checked ? args : twin);
    });
    disagreement_.CompareView("out", args.out);
  }
  void Linear(Queue& queue, const LinearArgs& args) override {
    LinearArgs twin = args;
    Translate({&twin.x, &twin.residual});
    if (twin.norm) {
      Translate({&twin.norm->x, &twin.norm->weight, &twin.norm->out});
    }
    if (twin.gated_act) {
      Translate(
          {&twin.gated_act->gate, &twin.gated_act->up, &twin.gated_act->out});
    }
    std::vector<LinearPart> parts(args.parts.begin(), args.parts.end());
    for (LinearPart& part : parts) {
      WeightMatrix& weight = part.weight;
      Translate({&weight.codes, &weight.scales, &weight.zeros, &part.bias,
                 &part.out});
    }
    twin.parts = parts;
    Both("Linear", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.Linear(on, checked ? args : twin);
    });
    if (args.norm) disagreement_.CompareView("x", args.x);
    if (args.gated_act) {
      disagreement_.CompareView("gated_act.out", args.gated_act->out);
      // Others may stand where gate and up did, and read rows of theirs that
      // no op has written since.
      disagreement_.TakeOver(args.gated_act->gate.data);
      return disagreement_.TakeOver(args.gated_act->up.data);
    }
    for (const LinearPart& part : args.parts) {
      disagreement_.CompareView("out", part.out);
    }
  }
  void RotaryAngles(Queue& queue, const LayerStep& step,
                    const RotaryAnglesArgs& args) override {
    RotaryAnglesArgs twin = args;
    Translate({&twin.inverse_frequencies, &twin.scale, &twin.out});
    const LayerStep steps[] = {twins_->Of(step), step};
    Both("RotaryAngles", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.RotaryAngles(on, steps[checked], checked ? args : twin);
    });
    disagreement_.CompareView("out", args.out);
  }
  void GatedAct(Queue& queue, const GatedActArgs& args) override {
    GatedActArgs twin = args;
    Translate({&twin.gate, &twin.up, &twin.out});
    Both("GatedAct", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.GatedAct(on, checked ? args : twin);
    });
    disagreement_.CompareView("out", args.out);
  }
  void Append(Queue& queue, const LayerStep& step, const TokenInputs& inputs,
              const LayerCache& cache) override {
    TokenInputs twin = inputs;
    Translate({&twin.x, &twin.q, &twin.q_pre, &twin.k, &twin.v, &twin.cos_sin});
    const LayerStep steps[] = {twins_->Of(step), step};
    const LayerCache caches[] = {twins_->Of(cache), cache};
    Both("Append", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.Append(on, steps[checked], checked ? inputs : twin,
                     caches[checked]);
    });
    disagreement_.CompareView("q", inputs.q);
    disagreement_.CompareView("q_pre", inputs.q_pre);
    ComparePages(steps[0], cache);
  }
  void Summarize(Queue& queue, const LayerStep& step, const SummarizeArgs& args,
                 const LayerCache& cache) override {
    const std::vector<LayerSelector> selectors = TwinsOf(args.selectors);
    SummarizeArgs twin = args;
    twin.selectors = selectors;
    Translate({&twin.first_token, &twin.q, &twin.inverse_frequencies,
               &twin.rope_scale});
    const LayerStep steps[] = {twins_->Of(step), step};
    const LayerCache caches[] = {twins_->Of(cache), cache};
    Both("Summarize", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.Summarize(on, steps[checked], checked ? args : twin,
                        caches[checked]);
    });
    for (const LayerSelector& selector : args.selectors) {
      if (selector.program == nullptr) continue;
      // Rows of E4M3 hold their scales too, so they are compared as bytes.
      const Dtype dtype = selector.program->rows.dtype;
      disagreement_.ComparePiece(
          "summaries", selector.summaries.rows,
          dtype == Dtype::kFloat8E4M3 ? Dtype::kUInt8 : dtype);
      disagreement_.ComparePiece("fixed choices", selector.fixed.slots,
                                 Dtype::kUInt8);
    }
  }
  void ClusterKeys(Queue& queue, const LayerStep& step,
                   const ClusterKeysArgs& args,
                   const LayerCache& cache) override {
    const std::vector<LayerSelector> selectors = TwinsOf(args.selectors);
    ClusterKeysArgs twin = args;
    twin.selectors = selectors;
    Translate({&twin.first_token});
    const LayerStep steps[] = {twins_->Of(step), step};
    const LayerCache caches[] = {twins_->Of(cache), cache};
    Both("ClusterKeys", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.ClusterKeys(on, steps[checked], checked ? args : twin,
                          caches[checked]);
    });
    // Near ties may fall to either side, and move what follows them: clusters
    // are taken over, and not compared.
    for (const LayerSelector& selector : args.selectors) {
      disagreement_.TakeOver(selector.summaries.rows);
    }
  }
  void Select(Queue& queue, const LayerStep& step, const SelectArgs& args,
              const LayerCache& cache) override {
    const std::vector<LayerSelector> selectors = TwinsOf(args.selectors);
    SelectArgs twin = args;
    twin.selectors = selectors;
    twin.picks = twins_->Of(args.picks);
    const SlotTable slots = TwinOf(args.next.slots);
    twin.next.lists = twins_->Of(args.next.lists);
    if (args.next.slots != nullptr) twin.next.slots = &slots;
    Translate({&twin.q, &twin.q_pre, &twin.cos_sin, &twin.first_token,
               &twin.read_shares});
    const LayerStep steps[] = {twins_->Of(step), step};
    const LayerCache caches[] = {twins_->Of(cache), cache};
    Both("Select", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.Select(on, steps[checked], checked ? args : twin,
                     caches[checked]);
    });
    disagreement_.ComparePicks(args.picks);
    if (!args.next.lists.picks.empty()) {
      disagreement_.ComparePicks(args.next.lists);
    }
    disagreement_.CompareView("read_shares", args.read_shares);
  }
  void Fetch(Queue& queue, const LayerStep& step, const FetchArgs& args,
             const LayerCache& cache) override {
    const SlotTable slots = TwinOf(args.slots);
    FetchArgs twin = args;
    twin.source.picks = twins_->Of(args.source.picks);
    twin.hints = twins_->Of(args.hints);
    twin.slots = &slots;
    Translate({&twin.counts});
    const LayerStep steps[] = {twins_->Of(step), step};
    const LayerCache caches[] = {twins_->Of(cache), cache};
    Both("Fetch", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.Fetch(on, steps[checked], checked ? args : twin, caches[checked]);
    });
    disagreement_.CompareView("tags", args.slots->tags);
    disagreement_.CompareView("ages", args.slots->ages);
    disagreement_.CompareView("entries", args.slots->entries);
    disagreement_.CompareView("counts", args.counts);
  }
  void Attend(Queue& queue, const LayerStep& step, const AttendArgs& args,
              const LayerCache& cache) override {
    std::vector<AttendSource> sources(args.sources.begin(), args.sources.end());
    std::vector<std::vector<LayerSelector>> selectors;
    for (AttendSource& source : sources) {
      source.picks = twins_->Of(source.picks);
      source.selectors = selectors.emplace_back(TwinsOf(source.selectors));
    }
    const SlotTable slots = TwinOf(args.slots);
    AttendArgs twin = args;
    twin.sources = sources;
    if (args.slots != nullptr) twin.slots = &slots;
    Translate({&twin.q, &twin.out, &twin.lse, &twin.ahead});
    const LayerStep steps[] = {twins_->Of(step), step};
    const LayerCache caches[] = {twins_->Of(cache), cache};
    Both("Attend", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.Attend(on, steps[checked], checked ? args : twin,
                     caches[checked]);
    });
    disagreement_.CompareView("out", args.out);
    disagreement_.CompareView("lse", args.lse);
  }
  void MergeStates(Queue& queue, const LayerStep& step,
                   const MergeStatesArgs& args) override {
    std::vector<View> outs(args.outs.begin(), args.outs.end());
    std::vector<View> lses(args.lses.begin(), args.lses.end());
    for (View& view : outs) view = twins_->Of(view);
    for (View& view : lses) view = twins_->Of(view);
    MergeStatesArgs twin = args;
    twin.outs = outs;
    twin.lses = lses;
    Translate({&twin.out});
    const LayerStep steps[] = {twins_->Of(step), step};
    Both("MergeStates", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.MergeStates(on, steps[checked], checked ? args : twin);
    });
    disagreement_.CompareView("out", args.out);
  }
  void GatherRows(Queue& queue, const GatherRowsArgs& args) override {
    GatherRowsArgs twin = args;
    Translate({&twin.x, &twin.indices, &twin.out});
    Both("GatherRows", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.GatherRows(on, checked ? args : twin);
    });
    disagreement_.CompareView("out", args.out);
  }
  void Sample(Queue& queue, const SampleArgs& args) override {
    SampleArgs twin = args;
    Translate({&twin.logits, &twin.seen_begin, &twin.bias_begin, &twin.mask,
               &twin.token_ids, &twin.logprobs, &twin.top_ids,
               &twin.top_logprobs});
    twin.rows = twins_->Of(args.rows);
    twin.seen = twins_->Of(args.seen);
    twin.bias = twins_->Of(args.bias);
    Both("Sample", queue, [&](Backend& backend, Queue& on, bool checked) {
      backend.Sample(on, checked ? args : twin);
    });
    disagreement_.CompareView("token_ids", args.token_ids);
    disagreement_.CompareView("logprobs", args.logprobs);
  }
  void CopyPagePrefixes(Queue& queue,
                        const CopyPagePrefixesArgs& args) override {
    std::vector<LayerCache> layers;
    for (const LayerCache& layer : args.layers) {
      layers.push_back(twins_->Of(layer));
    }
    CopyPagePrefixesArgs twin = args;
    twin.layers = layers;
    Both("CopyPagePrefixes", queue,
         [&](Backend& backend, Queue& on, bool checked) {
           backend.CopyPagePrefixes(on, checked ? args : twin);
         });
  }

 private:
  void Translate(std::initializer_list<View*> views) {
    for (View* view : views) *view = twins_->Of(*view);
  }
  std::vector<LayerSelector> TwinsOf(
      std::span<const LayerSelector> selectors) const {
    std::vector<LayerSelector> twins;
    for (const LayerSelector& selector : selectors) {
      twins.push_back(twins_->Of(selector));
    }
    return twins;
  }

  SlotTable TwinOf(const SlotTable* slots) const {
    return slots == nullptr ? SlotTable() : twins_->Of(*slots);
  }

  // run(backend, queue, whether it is the subject), on both.
  template <typename Run>
  void Both(std::string_view op, Queue& queue, Run&& run) {
    CheckedQueue& on = CheckedQueue::Of(queue);
    disagreement_.Begin(op, *on.subject);
    run(*subject_, *on.subject, true);
    run(*reference_, *on.reference, false);
  }

  // The layer blocks of the pages that a step writes. `step` is the twin, which
  // the host can read.
  void ComparePages(const LayerStep& step, const LayerCache& cache) {
    const LayerCache twin = twins_->Of(cache);
    const HeadBlockFormat& format = cache.format;
    for (int request = 0; request < step.num_requests; ++request) {
      const int first = step.first_position.As<int32_t>()[request];
      const int end = first + step.num_tokens.As<int32_t>()[request];
      for (int page = first / format.page_tokens;
           page * format.page_tokens < end; ++page) {
        const uint32_t kv_block = twin.page_table.Row(request)[page];
        for (int head = 0; head < cache.num_kv_heads; ++head) {
          disagreement_.CompareView(
              "keys", MakeView(cache.Slice(kv_block, head), format.k,
                               {format.page_tokens, format.k_dim}));
          if (format.v_in_k) continue;
          disagreement_.CompareView(
              "values",
              MakeView(cache.Slice(kv_block, head) + format.v_offset_bytes,
                       format.v, {format.page_tokens, format.v_dim}));
        }
      }
    }
  }

  const std::unique_ptr<Backend> subject_, reference_;
  BackendAttributes attributes_;
  const SharedTwins twins_;
  Disagreement disagreement_;
};

}  // namespace

std::unique_ptr<Backend> MakeCheckedBackend(
    std::unique_ptr<Backend> subject, std::unique_ptr<Backend> reference) {
  return std::make_unique<CheckedBackend>(std::move(subject),
                                          std::move(reference));
}

}  // namespace winnow
