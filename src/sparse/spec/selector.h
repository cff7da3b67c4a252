// Selectors: policies of the literature that say what attention reads, as data.
#ifndef WINNOW_SPARSE_SPEC_SELECTOR_H_
#define WINNOW_SPARSE_SPEC_SELECTOR_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/contract/select_program.h"
#include "base/result.h"
#include "sparse/spec/parameter_range.h"
#include "sparse/spec/spec.h"

namespace winnow {

// What a selector may know of the model that it chooses for.
struct SelectorShape {
  int num_layers = 0;
  int num_q_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  Dtype kv_dtype = Dtype::kBFloat16;
  int max_context_tokens = 0;
  std::vector<int> windows;   // a layer's sliding window; 0: none
  int gate_block_tokens = 0;  // what its gates were trained for; 0: unknown
};

// A selector, ready for one model: const once made.
struct Selector {
  std::string name;
  SelectProgram program;
  std::vector<bool> dense;  // by layer: everything is read there
  // By layer: dense, and no sliding window there: every row reads all that its
  // request has. None: in no layer is it so.
  std::vector<bool> reads_all = {};
  // By layer: everything is read there, and what is chosen there is read in
  // the layers after it, up to the next such one. None: each layer chooses.
  std::vector<bool> keeps = {};

  // Null where the layer is dense.
  const SelectProgram* ForLayer(int layer) const {
    return dense[static_cast<size_t>(layer)] ? nullptr : &program;
  }
  bool is_dense() const;  // in all layers
  bool reuses() const { return !keeps.empty(); }
  bool KeepsLists(int layer) const {
    return reuses() && keeps[static_cast<size_t>(layer)];
  }
  // The layer whose choice is read in `layer`, or -1: its own.
  int ReuseLayer(int layer) const;
};

// One parameter of a SPEC, and what it is where the SPEC says nothing.
struct SelectorParameter {
  std::string_view name;
  std::string_view value;  // the default
  ParameterRange range;
  std::string_view meaning;  // with what `range` does not say of its values
};

// How a SPEC's summaries may be kept: what GetSummaryDtype reads.
inline constexpr std::string_view kSummaryForms[] = {"auto", "fp8"};
// A length of partitions in tokens: whatever divides a page of 32, or pages.
inline constexpr int64_t kMaxBlockTokens = int64_t{1} << 16;

// The parameters of one SPEC, defaults filled in, as a selector reads them:
// each is within its range (Check).
class SelectorValues {
 public:
  // REQUIRES: both outlive this.
  SelectorValues(std::span<const SelectorParameter> parameters,
                 const SelectSpec& spec)
      : parameters_(parameters), spec_(spec) {}

  // Whether every one is within its range, for a context of so many tokens.
  Status Check(int64_t context) const;
  // Whether an amount that is not 0 holds `least` tokens, which are `of_what`,
  // of the longest context.
  Status CheckAmount(std::string_view name, int64_t least,
                     std::string_view of_what, int64_t context) const;

  // How messages begin, "--select quest:", and name one of them, "--select
  // quest: budget".
  std::string Prefix() const;
  std::string Field(std::string_view name) const;
  bool Has(std::string_view name) const;
  // As it is written. REQUIRES of all: `name` is one of the parameters.
  std::string_view GetText(std::string_view name) const;
  Result<Amount> GetAmount(std::string_view name) const;
  Result<int> GetTokens(std::string_view name) const;
  Result<double> GetFraction(std::string_view name) const;
  Result<std::vector<bool>> GetLayers(std::string_view name,
                                      int num_layers) const;
  // The index among its range's choices.
  Result<int> GetChoice(std::string_view name) const;

 private:
  const SelectorParameter& Find(std::string_view name) const;
  bool IsGiven(std::string_view name) const;

  std::span<const SelectorParameter> parameters_;
  const SelectSpec& spec_;
};

// The parameter summaries: auto, the cache's own type, or fp8.
Result<Dtype> GetSummaryDtype(const SelectorValues& values,
                              const SelectorShape& shape);

// Reads the parameters sink, recent and budget, which most selectors have.
Status ReadAmounts(const SelectorValues& values, SelectProgram& program);

inline constexpr ParameterRange kSegmentRange =
    PowerOfTwoFrom(32, kMaxBlockTokens);
inline constexpr ParameterRange kClusterRange = PowerOfTwoFrom(1, 32);
inline constexpr ParameterRange kIterationsRange = TokensFrom(1, 100);
// Reads the parameters segment, cluster and iterations, of these ranges, of
// selectors that choose among clusters.
Status ReadClusters(const SelectorValues& values, const SelectorShape& shape,
                    SelectProgram& program);

// One selector as people find it, in a file of its own: what it is called,
// where it was published, and how its program follows from its parameters.
// The parameters dense_layers and select_layers, where they are there, are
// read by MakeSelector.
struct SelectorKind {
  std::string_view name;
  std::string_view title;   // one line
  std::string_view source;  // paper or code, with what of it is followed
  std::span<const SelectorParameter> parameters;
  Result<SelectProgram> (*make)(const SelectorValues& values,
                                const SelectorShape& shape);
  // Where a plain name is not what was published, and why: empty, or
  // sentences.
  std::string_view differs = {};
};

// All of them, by name.
std::span<const SelectorKind* const> AllSelectors();

// What is wrong with a SPEC whatever the model: an unknown name or parameter,
// told with the nearest right one.
Status CheckSelectorSpelling(std::string_view spec);

// Makes what a SPEC asks for. Fails, with the nearest right name, where the
// name or a parameter is unknown, where a value is out of range, where a budget
// holds no block, less than is forced or more than the context, where the model
// lacks what the selector needs, and where no layer would read what is chosen;
// never answers with another selector.
// Of a share it is the longest context that is looked at.
// Layers with a sliding window are dense: they read their window.
Result<Selector> MakeSelector(
    std::string_view spec, const SelectorShape& shape,
    std::span<const SelectorKind* const> kinds = AllSelectors());

}  // namespace winnow

#endif  // WINNOW_SPARSE_SPEC_SELECTOR_H_
