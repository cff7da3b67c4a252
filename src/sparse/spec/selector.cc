#include "sparse/spec/selector.h"

#include <algorithm>

#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

constexpr const SelectorKind* kSelectors[] = {
    &kArkValeSelector,       &kClusterKvSelector, &kDenseSelector,
    &kInfLlmV2Selector,      &kMeanSelector,      &kMobaSelector,
    &kOracleSelector,        &kQuestSelector,     &kRetroInferSelector,
    &kSeerAttentionSelector, &kShadowKvSelector,  &kSnapKvSelector,
    &kTidalSelector,         &kWindowSelector};

constexpr std::string_view kDenseLayers = "dense_layers";
constexpr std::string_view kSelectLayers = "select_layers";
constexpr std::string_view kBudget = "budget";

std::string List(const std::vector<std::string_view>& names) {
  std::string list;
  for (const std::string_view name : names) {
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return list;
}

Result<const SelectorKind*> FindKind(
    std::string_view name, std::span<const SelectorKind* const> kinds) {
  std::vector<std::string_view> names;
  for (const SelectorKind* kind : kinds) {
    if (kind->name == name) return kind;
    names.push_back(kind->name);
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "--select: \"{}\" is unknown, did you mean \"{}\"? There "
                   "are auto, {}",
                   name, NearestName(name, names), List(names));
}

Status CheckParameters(const SelectorKind& kind, const SelectSpec& spec) {
  std::vector<std::string_view> names;
  for (const SelectorParameter& known : kind.parameters) {
    names.push_back(known.name);
  }
  for (const auto& [key, value] : spec.parameters) {
    if (std::ranges::find(names, key) != names.end()) continue;
    if (names.empty()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--select {}: there are no parameters, \"{}\" is given",
                       kind.name, key);
    }
    return MakeError(ErrorCode::kInvalidArgument,
                     "--select {}: \"{}\" is unknown, did you mean \"{}\"? "
                     "There are {}",
                     kind.name, key, NearestName(key, names), List(names));
  }
  return Ok{};
}

int64_t BlocksOf(int64_t tokens, const SelectProgram& program) {
  return (tokens + program.block_tokens - 1) / program.block_tokens;
}

// What amounts must hold at least, by what else the SPEC says: whatever is
// forced inside a budget and a block besides, and a block of any other.
Status CheckAmounts(const SelectorKind& kind, const SelectorValues& values,
                    const SelectProgram& program, int64_t context) {
  const int64_t block = program.block_tokens;
  for (const SelectorParameter& parameter : kind.parameters) {
    if (parameter.range.kind != ParameterRange::Kind::kAmount) continue;
    int64_t least = block;
    std::string of_what = fmt::format("1 x {}", block);
    if (parameter.name == kBudget &&
        program.fixed.kind == FixedChoice::Kind::kObserved) {
      least = program.fixed.window_tokens + 1;
      of_what =
          fmt::format("more than the window's {}", program.fixed.window_tokens);
    } else if (parameter.name == kBudget && program.forced.inside_budget) {
      const int64_t num_blocks =
          1 + BlocksOf(program.forced.sink_tokens, program) +
          BlocksOf(program.forced.recent_tokens, program);
      least = num_blocks * block;
      of_what = fmt::format("{} x {}, what is read whatever its score included",
                            num_blocks, block);
    }
    RETURN_IF_ERROR(
        values.CheckAmount(parameter.name, least, of_what, context));
  }
  return Ok{};
}

// Which layers choose for those after them; what stands before is dense.
// REQUIRES: selector.dense says which layers cannot choose.
Status ReadSelectLayers(const SelectorValues& values, Selector& selector) {
  const int num_layers = static_cast<int>(selector.dense.size());
  const std::string_view text = values.GetText(kSelectLayers);
  if (text == "auto") {
    selector.keeps.assign(selector.dense.size(), false);
    for (const int layer : {2, 9}) {
      // A layer with a window cannot: the next one does.
      for (auto i = static_cast<size_t>(layer); i < selector.dense.size();
           ++i) {
        if (selector.dense[i]) continue;
        selector.keeps[i] = true;
        break;
      }
    }
  } else {
    ASSIGN_OR_RETURN(selector.keeps,
                     values.GetLayers(kSelectLayers, num_layers));
  }
  const auto first = std::ranges::find(selector.keeps, true);
  for (size_t i = 0; i < selector.keeps.size(); ++i) {
    if (selector.keeps[i] && selector.dense[i]) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{} must be layers without a window, layer {} has one",
                       values.Field(kSelectLayers), i);
    }
  }
  if (std::ranges::find(selector.dense, false) == selector.dense.end()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must name a layer without a window, all of the "
                     "model's {} have one",
                     values.Field(kSelectLayers), num_layers);
  }
  if (first == selector.keeps.end()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must name a layer of the model's {}, is \"{}\"",
                     values.Field(kSelectLayers), num_layers, text);
  }
  std::fill(selector.dense.begin(),
            selector.dense.begin() + (first - selector.keeps.begin()), true);
  return Ok{};
}

// Whether some layer reads what is chosen: else the answer would be dense,
// under another name.
Status CheckChooses(const SelectorValues& values, const SelectorShape& shape,
                    const Selector& selector) {
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    if (selector.ForLayer(layer) != nullptr && !selector.KeepsLists(layer)) {
      return Ok{};
    }
  }
  std::string layers;
  for (const std::string_view name : {kDenseLayers, kSelectLayers}) {
    if (!values.Has(name)) continue;
    layers += fmt::format(", {} is \"{}\"", name, values.GetText(name));
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} no layer would read less than everything, which "
                   "--select dense is for; of the model's {} layers {} have a "
                   "sliding window{}",
                   values.Prefix(), shape.num_layers,
                   std::ranges::count_if(shape.windows,
                                         [](int window) { return window > 0; }),
                   layers);
}

}  // namespace

int Selector::ReuseLayer(int layer) const {
  if (!reuses() || dense[static_cast<size_t>(layer)] || KeepsLists(layer)) {
    return -1;
  }
  while (--layer >= 0 && !KeepsLists(layer)) {
  }
  return layer;
}

bool Selector::is_dense() const {
  return std::ranges::all_of(dense, [](bool layer) { return layer; });
}

std::string SelectorValues::Field(std::string_view name) const {
  return Prefix() + " " + std::string(name);
}

std::string SelectorValues::Prefix() const {
  return fmt::format("--select {}:", spec_.name);
}

const SelectorParameter& SelectorValues::Find(std::string_view name) const {
  const auto known =
      std::ranges::find(parameters_, name, &SelectorParameter::name);
  CHECK(known != parameters_.end(), "{} has no parameter {}", spec_.name, name);
  return *known;
}

bool SelectorValues::Has(std::string_view name) const {
  return std::ranges::find(parameters_, name, &SelectorParameter::name) !=
         parameters_.end();
}

bool SelectorValues::IsGiven(std::string_view name) const {
  return std::ranges::any_of(spec_.parameters, [name](const auto& parameter) {
    return parameter.first == name;
  });
}

std::string_view SelectorValues::GetText(std::string_view name) const {
  for (const auto& [key, value] : spec_.parameters) {
    if (key == name) return value;
  }
  return Find(name).value;
}

Status SelectorValues::Check(int64_t context) const {
  for (const SelectorParameter& parameter : parameters_) {
    RETURN_IF_ERROR(CheckRange(Field(parameter.name), GetText(parameter.name),
                               parameter.range, context,
                               IsGiven(parameter.name)));
  }
  return Ok{};
}

Status SelectorValues::CheckAmount(std::string_view name, int64_t least,
                                   std::string_view of_what,
                                   int64_t context) const {
  ASSIGN_OR_RETURN(const Amount amount, GetAmount(name));
  if (amount.value == 0 && Find(name).range.least == 0) return Ok{};
  const bool is_share = amount.unit == Amount::Unit::kShare;
  // A default share of a short context may be less: no scores choose there.
  if (is_share && !IsGiven(name)) return Ok{};
  const int64_t tokens = amount.TokensOf(context);
  if (tokens >= least) return Ok{};
  if (least > context) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} would have to be {} tokens ({}), more than the "
                     "context of {}",
                     Field(name), least, of_what, context);
  }
  const std::string of_context =
      is_share
          ? fmt::format(" ({} of the context of {})", GetText(name), context)
          : "";
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} must be at least {} tokens ({}), is {}{}", Field(name),
                   least, of_what, tokens, of_context);
}

Result<Amount> SelectorValues::GetAmount(std::string_view name) const {
  return ParseAmount(Field(name), GetText(name));
}

Result<int> SelectorValues::GetTokens(std::string_view name) const {
  return ParseTokens(Field(name), GetText(name));
}

Result<double> SelectorValues::GetFraction(std::string_view name) const {
  return ParseFraction(Field(name), GetText(name));
}

Result<std::vector<bool>> SelectorValues::GetLayers(std::string_view name,
                                                    int num_layers) const {
  return ParseLayers(Field(name), GetText(name), num_layers);
}

Result<int> SelectorValues::GetChoice(std::string_view name) const {
  const auto& choices = Find(name).range.choices;
  const auto found = std::ranges::find(choices, GetText(name));
  CHECK(found != choices.end(), "{} is none of {}", GetText(name), name);
  return static_cast<int>(found - choices.begin());
}

Result<Dtype> GetSummaryDtype(const SelectorValues& values,
                              const SelectorShape& shape) {
  ASSIGN_OR_RETURN(const int form, values.GetChoice("summaries"));
  return form == 0 ? shape.kv_dtype : Dtype::kFloat8E4M3;
}

Status ReadAmounts(const SelectorValues& values, SelectProgram& program) {
  ASSIGN_OR_RETURN(program.forced.sink_tokens, values.GetTokens("sink"));
  ASSIGN_OR_RETURN(program.forced.recent_tokens, values.GetTokens("recent"));
  ASSIGN_OR_RETURN(program.budget, values.GetAmount("budget"));
  return Ok{};
}

Status ReadClusters(const SelectorValues& values, const SelectorShape& shape,
                    SelectProgram& program) {
  ASSIGN_OR_RETURN(const int segment, values.GetTokens("segment"));
  ASSIGN_OR_RETURN(program.block_tokens, values.GetTokens("cluster"));
  ASSIGN_OR_RETURN(program.index.iterations, values.GetTokens("iterations"));
  program.rows = {SummaryRows::Kind::kClusters, segment, program.block_tokens,
                  shape.kv_dtype};
  return Ok{};
}

std::span<const SelectorKind* const> AllSelectors() { return kSelectors; }

Status CheckSelectorSpelling(std::string_view text) {
  ASSIGN_OR_RETURN(const SelectSpec spec, ParseSelectSpec(text));
  ASSIGN_OR_RETURN(const SelectorKind* kind, FindKind(spec.name, kSelectors));
  return CheckParameters(*kind, spec);
}

Result<Selector> MakeSelector(std::string_view text, const SelectorShape& shape,
                              std::span<const SelectorKind* const> kinds) {
  ASSIGN_OR_RETURN(const SelectSpec spec, ParseSelectSpec(text));
  ASSIGN_OR_RETURN(const SelectorKind* kind, FindKind(spec.name, kinds));
  RETURN_IF_ERROR(CheckParameters(*kind, spec));
  const SelectorValues values(kind->parameters, spec);
  RETURN_IF_ERROR(values.Check(shape.max_context_tokens));
  Selector selector;
  selector.name = text;
  if (values.Has(kDenseLayers)) {
    ASSIGN_OR_RETURN(selector.dense,
                     values.GetLayers(kDenseLayers, shape.num_layers));
  } else {
    selector.dense.assign(static_cast<size_t>(shape.num_layers),
                          kind == &kDenseSelector);
  }
  for (size_t i = 0; i < shape.windows.size(); ++i) {
    if (shape.windows[i] > 0) selector.dense[i] = true;
  }
  if (values.Has(kSelectLayers)) {
    RETURN_IF_ERROR(ReadSelectLayers(values, selector));
  }
  if (kind != &kDenseSelector) {
    RETURN_IF_ERROR(CheckChooses(values, shape, selector));
  }
  selector.reads_all = selector.dense;
  for (size_t i = 0; i < shape.windows.size(); ++i) {
    if (shape.windows[i] > 0) selector.reads_all[i] = false;
  }
  ASSIGN_OR_RETURN(selector.program, kind->make(values, shape));
  CheckProgram(selector.program);
  RETURN_IF_ERROR(
      CheckAmounts(*kind, values, selector.program, shape.max_context_tokens));
  return selector;
}

}  // namespace winnow
