// Selectors: published policies that choose the tokens attention reads, as
// data.
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

// The properties of a model that a selector may depend on.
struct SelectorShape {
  int num_layers = 0;
  int num_q_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  Dtype kv_dtype = Dtype::kBFloat16;
  int max_context_tokens = 0;
  std::vector<int> windows;   // a layer's sliding window; 0: none
  int gate_block_tokens = 0;  // block length of its trained gates; 0: unknown
};

// A selector, ready for one model: const once made.
struct Selector {
  std::string name;
  SelectProgram program;
  std::vector<bool> dense;  // by layer: attention reads all tokens
  // By layer: dense and without a sliding window, so every row reads all its
  // request's tokens. Empty: false in every layer.
  std::vector<bool> reads_all = {};
  // By layer: attention reads all tokens, and later layers read this layer's
  // choice, up to the next such layer. Empty: each layer chooses for itself.
  std::vector<bool> keeps = {};

  // Null for a dense layer.
  const SelectProgram* ForLayer(int layer) const {
    return dense[static_cast<size_t>(layer)] ? nullptr : &program;
  }
  bool is_dense() const;  // in all layers
  bool reuses() const { return !keeps.empty(); }
  bool KeepsLists(int layer) const {
    return reuses() && keeps[static_cast<size_t>(layer)];
  }
  // The layer whose choice `layer` reads; -1: its own.
  int ReuseLayer(int layer) const;
};

// One parameter of a SPEC and its default.
struct SelectorParameter {
  std::string_view name;
  std::string_view value;  // the default
  ParameterRange range;
  std::string_view
      meaning;  // and facts about its values that `range` does not express
};

// The values of the parameter `summaries` (GetSummaryDtype).
inline constexpr std::string_view kSummaryForms[] = {"auto", "fp8"};
// The greatest block length in tokens. A block length divides a page of 32, or
// is a multiple of it.
inline constexpr int64_t kMaxBlockTokens = int64_t{1} << 16;

// The parameters of one SPEC with defaults filled in. Selectors read them after
// Check, so each is within its range.
class SelectorValues {
 public:
  // REQUIRES: both outlive this.
  SelectorValues(std::span<const SelectorParameter> parameters,
                 const SelectSpec& spec)
      : parameters_(parameters), spec_(spec) {}

  // Fails if a parameter is out of its range, for a context of `context`
  // tokens.
  Status Check(int64_t context) const;
  // Fails if an amount other than 0 has fewer than `least` tokens of the
  // longest context. `of_what` names these tokens in the message.
  Status CheckAmount(std::string_view name, int64_t least,
                     std::string_view of_what, int64_t context) const;

  // The beginning of messages, "--select quest:", and of messages about one
  // parameter, "--select quest: budget".
  std::string Prefix() const;
  std::string Field(std::string_view name) const;
  bool Has(std::string_view name) const;
  // The text as written. REQUIRES of all: `name` is one of the parameters.
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

// The parameter `summaries`: auto, which is the cache's own type, or fp8.
Result<Dtype> GetSummaryDtype(const SelectorValues& values,
                              const SelectorShape& shape);

// Reads the parameters sink, recent and budget, which most selectors have.
Status ReadAmounts(const SelectorValues& values, SelectProgram& program);

inline constexpr ParameterRange kSegmentRange =
    PowerOfTwoFrom(32, kMaxBlockTokens);
inline constexpr ParameterRange kClusterRange = PowerOfTwoFrom(1, 32);
inline constexpr ParameterRange kIterationsRange = TokensFrom(1, 100);
// Reads the parameters segment, cluster and iterations, of the ranges above,
// for selectors that choose among clusters.
Status ReadClusters(const SelectorValues& values, const SelectorShape& shape,
                    SelectProgram& program);

// One selector in a file of its own: its name, its publication, and the
// function from its parameters to its program. MakeSelector reads the
// parameters dense_layers and select_layers if they exist.
struct SelectorKind {
  std::string_view name;
  std::string_view title;   // one line
  std::string_view source;  // paper or code, and which part of it is followed
  std::span<const SelectorParameter> parameters;
  Result<SelectProgram> (*make)(const SelectorValues& values,
                                const SelectorShape& shape);
  // Sentences that say how a plain name differs from the publication, and why;
  // or empty.
  std::string_view differs = {};
};

// All kinds, by name.
std::span<const SelectorKind* const> AllSelectors();

// Fails if a SPEC is wrong for every model: an unknown name or parameter. The
// message suggests the nearest valid one.
Status CheckSelectorSpelling(std::string_view spec);

// Makes the selector of a SPEC. Never makes another selector instead. Fails,
// with the nearest valid name, if the name or a parameter is unknown. Fails if
// a value is out of range, or if a budget holds no block, less than is forced
// or more than the context. Fails if the model lacks a part that the selector
// needs, or if no layer would read the choice. Shares are checked against the
// longest context. Layers with a sliding window are dense: they read their
// window.
Result<Selector> MakeSelector(
    std::string_view spec, const SelectorShape& shape,
    std::span<const SelectorKind* const> kinds = AllSelectors());

}  // namespace winnow

#endif  // WINNOW_SPARSE_SPEC_SELECTOR_H_
