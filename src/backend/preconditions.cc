#include "backend/preconditions.h"

#include "backend/contract/replacement.h"

namespace winnow {

namespace {

bool SameRows(const View& a, const View& b) {
  return a.data == b.data && a.dtype == b.dtype && a.dim(0) == b.dim(0) &&
         a.dim(1) == b.dim(1) && (a.dim(0) <= 1 || a.stride[0] == b.stride[0]);
}

// The ops around a product.
void CheckAround(const LinearArgs& args) {
  if (args.norm) {
    const RmsNormArgs& norm = *args.norm;
    CHECK(norm.x.rank == 2 && norm.x.dtype == Dtype::kFloat32 &&
              norm.x.dim(0) == args.x.dim(0) &&
              norm.x.dim(1) == args.x.dim(1) && SameRows(norm.out, args.x),
          "norm of {} to {}, x {}", ToString(norm.x), ToString(norm.out),
          ToString(args.x));
  }
  if (!args.gated_act) return;
  const GatedActArgs& act = *args.gated_act;
  CHECK(args.parts.size() <= 2 && args.residual.empty(), "parts={} residual {}",
        args.parts.size(), ToString(args.residual));
  const bool joined = args.parts.size() == 1;
  const View& first = args.parts.front().out;
  const int64_t size = act.gate.dim(1);
  CHECK(!joined || first.dim(1) == 2 * size, "gate {} in out {} of one part",
        ToString(act.gate), ToString(first));
  const View gate = joined ? first.Columns(0, size) : first;
  const View up = joined ? first.Columns(size, size) : args.parts[1].out;
  CHECK(SameRows(gate, act.gate) && SameRows(up, act.up) &&
            act.gate.dtype == args.x.dtype && act.up.dtype == args.x.dtype &&
            act.out.dtype == args.x.dtype,
        "x {} made {} and {}, gate {} up {} out {}", ToString(args.x),
        ToString(gate), ToString(up), ToString(act.gate), ToString(act.up),
        ToString(act.out));
}

// The shapes and dtypes of one part.
void CheckPart(const View& x, const LinearPart& part) {
  const WeightMatrix& weight = part.weight;
  CHECK(weight.format == WeightFormat::kDense, "weight {} must be dense",
        ToString(weight));
  CHECK(BrokenRule(weight).empty(), "{}", BrokenRule(weight));
  CHECK(weight.columns == x.dim(1) && weight.codes.dtype == x.dtype,
        "x {} weight {}", ToString(x), ToString(weight));
  CHECK(part.out.dim(0) == x.dim(0) && part.out.dim(1) == weight.rows,
        "x {} weight {} out {}", ToString(x), ToString(weight),
        ToString(part.out));
  CHECK(part.out.dtype == Dtype::kFloat32 || part.out.dtype == x.dtype,
        "x {} out {}", ToString(x), ToString(part.out));
  CHECK(part.bias.empty() || (part.bias.dim(0) == weight.rows &&
                              part.bias.dtype == weight.codes.dtype),
        "weight {} bias {}", ToString(weight), ToString(part.bias));
}

}  // namespace

void CheckLinear(const LinearArgs& args) {
  CHECK(!args.parts.empty());
  CheckAround(args);
  for (const LinearPart& part : args.parts) CheckPart(args.x, part);
  if (args.residual.empty()) return;
  const View& out = args.parts[0].out;
  CHECK(args.parts.size() == 1 && out.dtype == Dtype::kFloat32,
        "residual with {} parts, out {}", args.parts.size(), ToString(out));
  CHECK(args.residual.dtype == Dtype::kFloat32 &&
            args.residual.dim(0) == out.dim(0) &&
            args.residual.dim(1) == out.dim(1),
        "residual {} out {}", ToString(args.residual), ToString(out));
}

void CheckAppend(const LayerStep& step, const TokenInputs& inputs,
                 const LayerCache& cache) {
  const HeadBlockFormat& format = cache.format;
  CHECK(format.k == format.v && format.scale_bytes == 0,
        "k={} v={} scale_bytes={}", DtypeName(format.k), DtypeName(format.v),
        format.scale_bytes);
  CHECK(inputs.k.dim(0) == step.num_rows &&
            inputs.k.dim(1) == cache.num_kv_heads &&
            inputs.k.dim(2) == format.k_dim,
        "k {} rows={} kv_heads={} k_dim={}", ToString(inputs.k), step.num_rows,
        cache.num_kv_heads, format.k_dim);
  CHECK(inputs.q.dim(0) == step.num_rows && inputs.q.dim(2) == format.k_dim,
        "q {} rows={} k_dim={}", ToString(inputs.q), step.num_rows,
        format.k_dim);
  if (!inputs.q_pre.empty()) {
    CHECK(inputs.q_pre.dtype == inputs.q.dtype &&
              inputs.q_pre.shape == inputs.q.shape,
          "q {} q_pre {}", ToString(inputs.q), ToString(inputs.q_pre));
  }
  if (!format.v_in_k) {
    CHECK(inputs.v.dtype == inputs.k.dtype &&
              inputs.v.dim(0) == step.num_rows &&
              inputs.v.dim(1) == cache.num_kv_heads &&
              inputs.v.dim(2) == format.v_dim,
          "k {} v {} v_dim={}", ToString(inputs.k), ToString(inputs.v),
          format.v_dim);
  }
  if (inputs.cos_sin.empty()) return;
  CHECK(inputs.cos_sin.dim(0) == step.num_rows &&
            inputs.cos_sin.dim(1) % 2 == 0 &&
            inputs.cos_sin.dim(1) <= format.k_dim,
        "cos_sin {} rows={} k_dim={}", ToString(inputs.cos_sin), step.num_rows,
        format.k_dim);
}

void CheckFetch(const LayerStep& step, const FetchArgs& args,
                const LayerCache& cache) {
  const HeadBlockFormat& format = cache.format;
  CHECK(args.slots != nullptr && format.scale_bytes == 0 &&
            format.page_tokens == kPageTokens &&
            (format.slot_tokens == 8 || format.slot_tokens == 16 ||
             format.slot_tokens == 32),
        "scale_bytes={} page_tokens={} slot_tokens={}", format.scale_bytes,
        format.page_tokens, format.slot_tokens);
  CHECK(args.least_hint_age >= 0 && args.least_hint_age <= kNoHintFetch,
        "least_hint_age={} limit={}", args.least_hint_age, kNoHintFetch);
  CHECK(args.counts.empty() || (args.counts.dtype == Dtype::kUInt32 &&
                                args.counts.dim(0) >= step.num_requests &&
                                args.counts.dim(1) == kNumFetchCounts),
        "counts {} requests={}", ToString(args.counts), step.num_requests);
  if (args.source.kind == AttendSource::Kind::kAllPages) return;
  const PickLists& picks = args.source.picks;
  CHECK(picks.first_row >= 0 &&
            picks.first_row + picks.num_rows() <= step.num_rows &&
            picks.num_picks.dim(1) % cache.num_kv_heads == 0,
        "first_row={} num_picks {} rows={} kv_heads={}", picks.first_row,
        ToString(picks.num_picks), step.num_rows, cache.num_kv_heads);
  CHECK(args.hints.picks.empty() || (args.hints.first_row == picks.first_row &&
                                     args.hints.num_rows() == picks.num_rows()),
        "hints: first_row={} {}, picks: first_row={} {}", args.hints.first_row,
        ToString(args.hints.num_picks), picks.first_row,
        ToString(picks.num_picks));
}

void CheckAttend(const LayerStep& step, const AttendArgs& args,
                 const LayerCache& cache) {
  const HeadBlockFormat& format = cache.format;
  CHECK(args.sources.size() == 1, "Attend takes one source, got {}",
        args.sources.size());
  CHECK(format.k == format.v && format.scale_bytes == 0 &&
            format.page_tokens == kPageTokens,
        "k={} v={} scale_bytes={} page_tokens={}", DtypeName(format.k),
        DtypeName(format.v), format.scale_bytes, format.page_tokens);
  CHECK(format.v_dim <= kMaxValueDim, "v_dim={} limit={}", format.v_dim,
        kMaxValueDim);
  CHECK(cache.num_kv_heads > 0 && args.q.rank == 3 && args.out.rank == 3,
        "kv_heads={} q {} out {}", cache.num_kv_heads, ToString(args.q),
        ToString(args.out));
  CHECK(args.q.dim(0) == step.num_rows && args.q.dim(2) == format.k_dim &&
            args.q.dim(1) % cache.num_kv_heads == 0,
        "q {} rows={} kv_heads={} k_dim={}", ToString(args.q), step.num_rows,
        cache.num_kv_heads, format.k_dim);
  CHECK(args.out.dim(0) == step.num_rows && args.out.dim(1) == args.q.dim(1) &&
            args.out.dim(2) == format.v_dim,
        "q {} out {} v_dim={}", ToString(args.q), ToString(args.out),
        format.v_dim);
  CHECK(args.lse.empty() || (args.lse.dtype == Dtype::kFloat32 &&
                             args.lse.dim(0) == step.num_rows &&
                             args.lse.dim(1) == args.q.dim(1)),
        "q {} lse {}", ToString(args.q), ToString(args.lse));
}

void CheckSelect(const LayerStep& step, const SelectArgs& args,
                 const LayerCache& cache) {
  const PickLists& picks = args.picks;
  CHECK(args.q.dim(0) == step.num_rows && args.q.dim(2) == cache.format.k_dim &&
            args.q.dim(1) % cache.num_kv_heads == 0,
        "q {} rows={} kv_heads={} k_dim={}", ToString(args.q), step.num_rows,
        cache.num_kv_heads, cache.format.k_dim);
  CHECK(picks.first_row >= 0 &&
            picks.first_row + picks.num_rows() <= step.num_rows &&
            picks.num_picks.dim(1) == args.q.dim(1) &&
            picks.picks.dim(1) == args.q.dim(1),
        "first_row={} picks {} num_picks {} rows={} q {}", picks.first_row,
        ToString(picks.picks), ToString(picks.num_picks), step.num_rows,
        ToString(args.q));
  const NextRanks& next = args.next;
  CHECK(next.lists.picks.empty() ||
            (next.slots != nullptr && next.budget_times >= 1 &&
             next.lists.first_row == picks.first_row &&
             next.lists.num_picks.shape == picks.num_picks.shape),
        "next ranks: slots={} budget_times={} first_row={} {}, picks: "
        "first_row={} {}",
        next.slots != nullptr, next.budget_times, next.lists.first_row,
        ToString(next.lists.num_picks), picks.first_row,
        ToString(picks.num_picks));
  CHECK(args.scores.empty() ||
            (args.scores.dtype == Dtype::kFloat32 && args.scores.rank == 3 &&
             args.scores.dim(0) == picks.num_rows() &&
             args.scores.dim(1) == args.q.dim(1)),
        "scores {} rows={} q {}", ToString(args.scores), picks.num_rows(),
        ToString(args.q));
  for (const LayerSelector& selector : args.selectors) {
    if (selector.program == nullptr) continue;
    CheckProgram(*selector.program);
    if (!selector.keeps_lists && selector.reuse_layer < 0) continue;
    CHECK(!(selector.keeps_lists && selector.reuse_layer >= 0) &&
              selector.reuse_layer < step.layer,
          "layer={} keeps_lists={} reuse_layer={}", step.layer,
          selector.keeps_lists, selector.reuse_layer);
    CHECK(picks.num_rows() == step.num_rows && picks.num_kept.rank == 2 &&
              picks.num_kept.dim(0) >= step.num_rows &&
              picks.num_kept.dim(1) == args.q.dim(1),
          "rows={} of {} num_kept {}", picks.num_rows(), step.num_rows,
          ToString(picks.num_kept));
  }
}

void CheckMergeStates(const LayerStep& step, const MergeStatesArgs& args) {
  CHECK(!args.outs.empty() && args.outs.size() == args.lses.size(),
        "outs={} lses={}", args.outs.size(), args.lses.size());
  for (size_t i = 0; i < args.outs.size(); ++i) {
    CHECK(args.outs[i].dtype == Dtype::kFloat32 &&
              args.outs[i].shape == args.out.shape &&
              args.lses[i].dim(0) == step.num_rows &&
              args.lses[i].dim(1) == args.out.dim(1),
          "part {}: out {} lse {} of {}", i, ToString(args.outs[i]),
          ToString(args.lses[i]), ToString(args.out));
  }
  CHECK(args.first_row >= 0 && args.num_rows >= 0 &&
            args.first_row + args.num_rows <= step.num_rows,
        "rows [{}, {} more) of {}", args.first_row, args.num_rows,
        step.num_rows);
}

void CheckSample(const SampleArgs& args) {
  const int64_t num_rows = args.logits.dim(0);
  const int64_t vocab = args.logits.dim(1);
  CHECK(vocab > 0 && vocab <= kMaxSampledVocab, "vocab={} at most {}", vocab,
        kMaxSampledVocab);
  const auto lists = [num_rows](const View& begin) {
    return begin.empty() || begin.dim(0) == num_rows + 1;
  };
  CHECK(lists(args.seen_begin) && lists(args.bias_begin),
        "logits {} seen_begin {} bias_begin {}", ToString(args.logits),
        ToString(args.seen_begin), ToString(args.bias_begin));
  CHECK(args.mask.empty() ||
            (args.mask.dim(0) == num_rows && args.mask.dim(1) * 32 >= vocab),
        "logits {} mask {}", ToString(args.logits), ToString(args.mask));
  CHECK(args.token_ids.dim(0) == num_rows && args.logprobs.dim(0) == num_rows,
        "logits {} token_ids {} logprobs {}", ToString(args.logits),
        ToString(args.token_ids), ToString(args.logprobs));
  CHECK(args.top_ids.empty() == args.top_logprobs.empty(),
        "top_ids {} top_logprobs {}", ToString(args.top_ids),
        ToString(args.top_logprobs));
  CHECK(args.top_ids.empty() || (args.top_ids.dim(0) == num_rows &&
                                 args.top_ids.shape == args.top_logprobs.shape),
        "logits {} top_ids {} top_logprobs {}", ToString(args.logits),
        ToString(args.top_ids), ToString(args.top_logprobs));
}

}  // namespace winnow
