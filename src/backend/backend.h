// The only door to a device: every op, every argument, every promise. Also
// the porting guide: a backend is what passes conformance_test.cc.
//
// Promises, of every op of every backend:
//  * total: no op is optional; what varies is data;
//  * it enqueues on the Queue it is given, in order; it allocates nothing,
//    waits for nothing, fails for nothing: its preconditions are CHECKs;
//  * lengths, positions and tables are read on the device when it runs;
//  * it takes any number of rows, requests and heads, and zero of them;
//  * products and sums accumulate in float32; its answer is the scalar CPU
//    op's within the tolerance that the conformance suite states;
//  * a row's answer does not depend on the other rows of the step
//    (docs/design.md section 5 says where a backend may relax this).
#ifndef WINNOW_BACKEND_BACKEND_H_
#define WINNOW_BACKEND_BACKEND_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/contract/fixed_table.h"
#include "backend/contract/gate_weights.h"
#include "backend/contract/layer_cache.h"
#include "backend/contract/picks.h"
#include "backend/contract/sampling.h"
#include "backend/contract/select_program.h"
#include "backend/contract/slot_table.h"
#include "backend/contract/step.h"
#include "backend/contract/summary_table.h"
#include "backend/contract/weight_matrix.h"
#include "base/result.h"
#include "tensor/buffer.h"

namespace winnow {

// An ordered line of work on a device. Made by a backend, used by one thread.
class Queue {
 public:
  virtual ~Queue() = default;
};

// A point on a Queue. Cheap to keep; valid as long as its backend.
struct Event {
  uint64_t ticket = 0;
};

// What a backend is, as data.
struct BackendAttributes {
  std::string name;         // "cpu", "cuda:0"
  std::string description;  // for people: instruction sets, device name
  // What the bits that ops make depend on, of what differs between machines:
  // the kernels, and a device's name and size, but no number of threads.
  std::string kernels;
  int64_t memory_bytes = 0;     // of the device tier, in all
  int64_t available_bytes = 0;  // at start
  bool device_is_host = false;  // device pointers can be read by the host
  // Ops return before they have run: the host may work beside them.
  bool runs_behind = false;
  // Bits of SelectFeature: what the ops run. An engine refuses at
  // start a selector that asks for more.
  uint32_t select_features = 0;
};

// One launch on a device, and how long it took there.
struct LaunchTime {
  std::string name;  // of the op, or of its part
  double seconds = 0;
};

struct RmsNormArgs {
  View x;       // [rows, size] or [rows, heads, size]: f32, bf16 or f16
  View weight;  // [size]
  float epsilon = 0;
  View out;  // as x; may be x where the dtypes agree
};

enum class Activation : uint8_t { kSilu, kGeluTanh, kGelu };

struct GatedActArgs {
  Activation activation = Activation::kSilu;
  View gate;  // [rows, size]
  View up;    // [rows, size]
  View out;   // [rows, size]: activation(gate) * up; may be gate
};

// out = x W^T + b for one of the products that share an input.
struct LinearPart {
  WeightMatrix weight;  // [out, in], kDense
  View bias;            // [out] of weight's dtype, or empty
  View out;             // [rows, out]: f32, or x's dtype (rounded once)
};

struct LinearArgs {
  View x;                             // [rows, in], of the weights' dtype
  std::span<const LinearPart> parts;  // at least one
  // With one part and out of f32: out = residual + scale * (x W^T + b); may be
  // out itself. Empty: out = scale * (x W^T + b).
  View residual;  // f32 [rows, out]
  float scale = 1.0f;
  // Bits of a row do not depend on the number of rows: one order over `in`.
  bool batch_invariant = false;
  // The ops around the product, which a backend may do in its launch. The
  // answers are those of the ops in turn, to the bit.
  // RmsNorm of float32 rows [rows, in], whose out is x. Overlaps no output.
  std::optional<RmsNormArgs> norm = {};
  // GatedAct of the outs, of x's dtype and without a residual; out has that
  // dtype too. Either two parts make gate and up, or one makes gate's columns
  // and then up's. Afterwards gate and up hold unspecified values, unless out
  // is gate.
  std::optional<GatedActArgs> gated_act = {};
};

struct EmbedArgs {
  // i32 [rows], each in [0, vocab), or -1: that row is zeros. So a row whose
  // token is what Sample has just drawn can be embedded unseen.
  View token_ids;
  View table;  // [vocab, hidden]
  float scale = 1.0f;
  View out;  // f32 [rows, hidden]
};

// Cosines and sines of a step's rows, once for all layers. The angle is the
// float32 product position * inverse frequency, as in Hugging Face's code.
struct RotaryAnglesArgs {
  View inverse_frequencies;  // f32 [requests, rotary_dim / 2]
  View scale;                // f32 [requests]: multiplies cosine and sine
  View out;                  // f32 [rows, rotary_dim]: cosines, then sines
};

// One of a step's selectors, in one layer.
struct LayerSelector {
  const SelectProgram* program = nullptr;  // null: dense in this layer
  SummaryTable summaries;
  // A choice may outlive its layer (TidalDecode): where lists are kept, Select
  // makes them for the layers to come and this one reads everything; where an
  // earlier layer is named, the lists that it kept are read, and Select makes
  // none. Such layers are chosen for in one call each, with the same memory of
  // lists, whose picks stand until the next layer that keeps its own.
  bool keeps_lists = false;
  int reuse_layer = -1;
  FixedTable fixed = {};  // where the program fixes a choice
  GateWeights gate = {};  // where the program's rows are kGate
};

struct SummarizeArgs {
  std::span<const LayerSelector> selectors;  // by LayerStep::selector
  // i32 [requests]: of each request, summaries that end at an earlier token
  // exist. At most the step's first position: where it is less, a selector
  // takes on a sequence that had none.
  View first_token;
  // [rows, q_heads, k_dim], after RoPE, and the scale of q k: where a program
  // observes them (FixedChoice).
  View q = {};
  float scale = 0;
  // As RotaryAnglesArgs has them, where a program has gates.
  View inverse_frequencies = {};  // f32 [requests, rotary_dim / 2]
  View rope_scale = {};           // f32 [requests]
};

struct ClusterKeysArgs {
  std::span<const LayerSelector> selectors;  // by LayerStep::selector
  View first_token;                          // as SummarizeArgs has it
};

// The next ranks: what a list would name besides, were its program's budget
// `budget_times` as large. Of decode rows whose requests have pages that are
// not whole; of other rows, of those where no score decides, and of a rule that
// knows no budget, there are none.
struct NextRanks {
  // Out, or empty: not asked for. As many lists a row as it has of picks, of
  // the same rows. Their capacity holds the longest list of such a budget.
  PickLists lists = {};
  double budget_times = 1;           // at least 1
  const SlotTable* slots = nullptr;  // says whose pages are whole
};

struct SelectArgs {
  std::span<const LayerSelector> selectors;  // by LayerStep::selector
  View q;           // [rows, q_heads, k_dim], after RoPE
  float scale = 0;  // of q k, where a program's map needs it
  // As TokenInputs has them, where a program has gates.
  View q_pre = {};    // [rows, q_heads, k_dim], before RoPE
  View cos_sin = {};  // f32 [rows, rotary_dim]
  // i32 [requests], as the step's Summarize and ClusterKeys were given it:
  // summaries that end at an earlier token were there before the step, and may
  // be read before what is enqueued ahead has ended. Empty: that is not known,
  // or they were not, as another request of the step makes them.
  View first_token = {};
  // Out: the lists of its rows. Their capacity holds the longest list.
  PickLists picks;
  // f32 [rows of the step], or empty: to a row of `picks` whose request has a
  // program in this layer, the share of its context that it reads is added,
  // mean over its lists.
  View read_shares;
  // REQUIRES, where it is asked for: SelectFeature::kNextRanks.
  NextRanks next = {};
  // Out, f32 [rows of `picks`, q_heads, tokens], or empty: of each list that is
  // chosen in this layer, by token, the score of the partition or cluster that
  // it belongs to; -infinity where that has none, or no score decides the list.
  // What is chosen does not depend on it. REQUIRES, where it is asked for:
  // SelectFeature::kScores, and room for every row's context.
  View scores = {};
};

// Where an Attend finds keys and values.
struct AttendSource {
  enum class Kind : uint8_t {
    kAllPages,  // every token up to the row: dense attention
    kPicks,     // what a row's lists name; only rows that have lists are read
    // The clusters that a row's lists estimate, decode rows alone: of one
    // the mean key and value, and the log of its size beside its score. A row
    // without any gives zeros and an lse of -infinity.
    kEstimates,
  };
  Kind kind = Kind::kAllPages;
  PickLists picks;
  std::span<const LayerSelector> selectors = {};  // with kEstimates
};

// Bounds what an Attend keeps of a row's state; the largest known v_dim is
// MLA's 512.
inline constexpr int kMaxValueDim = 1024;

// softmax(scale * q k^T) v over the sources (docs/design.md section 5). Decode
// rows go by the split rule, prefill rows by ascending tiles of 128 keys. 128
// clusters of a list make a KV split. One source. A row at position p sees
// positions [max(0, p - window + 1), p].
struct AttendArgs {
  View q;  // [rows, q_heads, k_dim], after RoPE
  std::span<const AttendSource> sources;
  float scale = 0;
  View out;  // [rows, q_heads, v_dim]
  View lse;  // f32 [rows, q_heads], natural logarithm; or empty
  // Where decode rows find pages that are not whole; null: all that is read
  // is. Bits do not depend on which pages are whole, nor on what slots hold.
  // REQUIRES: what prefill rows see is whole: they read it all.
  const SlotTable* slots = nullptr;
  // Weights that a later op reads, or empty: a device may bring them near
  // while memory has nothing else to do.
  View ahead = {};
  // Bits of a prefill row depend neither on the other rows of the step nor on
  // where its prompt was cut: one running state. Without, a step of few prompt
  // rows may merge several, by the step's rows and positions alone. Generated
  // rows, and rows of picks, are invariant anyway.
  bool batch_invariant = false;
};

// What the decode rows of an Attend of this source are about to read, brought
// near. Of each request that has pages that are not whole and each KV head, in
// the order of rows, lists, ranks and pieces, and after the lists by pages
// where all are read:
//  * a pick is a hit where its page is whole or the piece is in a slot;
//  * the others are listed, each once, as many as there are slots: the misses.
//    The i-th gets the i-th victim (replacement.h); those for which none is
//    left stay where they lie, mostly on the host, and Attend finds them there;
//  * then all slots that were not picked grow older;
//  * then the hints that are not near, listed likewise, get slots of at least
//    least_hint_age that neither picks nor hints want.
// So a hint that is near is overwritten only when nothing else is left.
// The same slots hold the same pieces on every backend.
struct FetchArgs {
  AttendSource source;
  const SlotTable* slots = nullptr;
  // Lists of the same rows whose picks are worth fetching, or empty: the next
  // ranks. They never change what is read.
  PickLists hints = {};
  // kEmptyAge: empty slots alone; kNoHintFetch: none, hints are only kept.
  int least_hint_age = 1;
  View counts = {};  // u32 [requests, kNumFetchCounts]: added to; or empty
};

// Attention results over disjoint keys, merged by lse, in their order. What one
// part alone says is its own to the bit. Of a row at least one lse is finite.
// (Learned gates, as NSA has them, come with who needs them.)
struct MergeStatesArgs {
  std::span<const View> outs;  // each f32 [rows, q_heads, v_dim]
  std::span<const View> lses;  // each f32 [rows, q_heads]
  // Of the step: the rows that are merged, of the kinds that are to be
  // attended.
  int first_row = 0, num_rows = 0;
  View out;  // [rows, q_heads, v_dim]
};

// Rows of x, gathered: the rows whose logits are wanted.
struct GatherRowsArgs {
  View x;        // [rows, size]
  View indices;  // i32 [wanted], each in [0, rows)
  View out;      // [wanted, size]
};

struct SampleArgs {
  // f32 [rows, vocab], vocab at most kMaxSampledVocab; overwritten.
  View logits;
  const SamplingRow* rows = nullptr;  // [rows], on the device
  View seen_begin;                    // i32 [rows + 1], into seen; or empty
  const SeenToken* seen = nullptr;    // distinct token ids a row
  View bias_begin;                    // i32 [rows + 1], into bias; or empty
  const TokenBias* bias = nullptr;    // distinct token ids a row
  View mask;       // u32 [rows, ceil(vocab / 32)], bit set: allowed; or empty
  View token_ids;  // out: i32 [rows]; -1 where the mask leaves no token
  View logprobs;   // out: f32 [rows]: of the drawn token
  View top_ids;    // out: i32 [rows, max top]; or empty
  View top_logprobs;  // out: f32 [rows, max top], descending; or empty
};

// Tokens [0, num_tokens) of a page, copied to another KV block in all layers
// and heads: what copy-on-write of a forked tail needs.
struct PageCopy {
  KvBlockId from, to;
  int num_tokens = 0;
};

struct CopyPagePrefixesArgs {
  std::span<const LayerCache> layers;
  std::span<const PageCopy> copies;  // targets are distinct, and no sources
};

// Every op of a step, and what a device needs to be used at all.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const BackendAttributes& attributes() const = 0;

  // Memory is taken before start and never inside a step. Fails with
  // kResourceExhausted, naming `purpose`. kDisk is not a backend's to give.
  virtual Result<Buffer> Allocate(Tier tier, size_t num_bytes,
                                  std::string_view purpose) = 0;

  virtual std::unique_ptr<Queue> MakeQueue() = 0;
  // Marks all that has been enqueued so far.
  virtual Event Record(Queue& queue) = 0;
  // Blocks the host until `event` has passed. A device that does not get there
  // in time, or failed, is an error that ends the process' use of it.
  virtual Status Wait(Event event, std::chrono::milliseconds timeout) = 0;

  // Copies contiguous bytes between tiers of this backend and the host.
  virtual void Copy(Queue& queue, const View& from, const View& to) = 0;

  // Enqueues what `enqueue` does: ops on `queue`, and nothing else. Which
  // ops, and every argument that the host sees, follow from `key` alone, so
  // that a device may record them once and replay them from then on.
  virtual void Replay(Queue& queue, std::span<const std::byte> key,
                      const std::function<void()>& enqueue) = 0;

  // Runs what `enqueue` enqueues and says what each launch took, in their
  // order, as the device's own clock has it: from the end of the launch ahead
  // of it to its own, so that none overlaps another. What Replay recorded is
  // one launch. Waits for its end: for measuring alone. A device without
  // launches times all of it as one.
  virtual Result<std::vector<LaunchTime>> Profile(
      Queue& queue, const std::function<void()>& enqueue) = 0;

  virtual void Embed(Queue& queue, const EmbedArgs& args) = 0;
  virtual void RmsNorm(Queue& queue, const RmsNormArgs& args) = 0;
  virtual void Linear(Queue& queue, const LinearArgs& args) = 0;
  virtual void RotaryAngles(Queue& queue, const LayerStep& step,
                            const RotaryAnglesArgs& args) = 0;
  virtual void GatedAct(Queue& queue, const GatedActArgs& args) = 0;
  // Rotates q and k, writes k and v at their positions' pages.
  virtual void Append(Queue& queue, const LayerStep& step,
                      const TokenInputs& inputs, const LayerCache& cache) = 0;
  // Closes the summaries that the tokens from args.first_token to the step's
  // last complete, from their keys in the pages, and makes the choices that are
  // fixed behind one of these: the same bits whatever steps the tokens came in.
  virtual void Summarize(Queue& queue, const LayerStep& step,
                         const SummarizeArgs& args,
                         const LayerCache& cache) = 0;
  // Makes the clusters of the segments that the tokens from args.first_token to
  // the step's last complete, from their keys and values in the pages.
  virtual void ClusterKeys(Queue& queue, const LayerStep& step,
                           const ClusterKeysArgs& args,
                           const LayerCache& cache) = 0;
  // Scores and chooses, for the rows of args.picks. Workspace is bounded
  // whatever the length.
  virtual void Select(Queue& queue, const LayerStep& step,
                      const SelectArgs& args, const LayerCache& cache) = 0;
  // Makes room in the slots, and fetches what is missing.
  virtual void Fetch(Queue& queue, const LayerStep& step, const FetchArgs& args,
                     const LayerCache& cache) = 0;
  virtual void Attend(Queue& queue, const LayerStep& step,
                      const AttendArgs& args, const LayerCache& cache) = 0;
  virtual void MergeStates(Queue& queue, const LayerStep& step,
                           const MergeStatesArgs& args) = 0;
  virtual void GatherRows(Queue& queue, const GatherRowsArgs& args) = 0;
  virtual void Sample(Queue& queue, const SampleArgs& args) = 0;
  virtual void CopyPagePrefixes(Queue& queue,
                                const CopyPagePrefixesArgs& args) = 0;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_BACKEND_H_
