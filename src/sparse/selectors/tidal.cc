// TidalDecode chooses tokens where it attends to all of them, in few layers,
// and reads the same tokens in the layers after. Its code does not force the
// row's own token; here it is one of the budget's, as in every selector.
#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

constexpr std::string_view kHeads[] = {"q", "kv"};

constexpr SelectorParameter kParameters[] = {
    {"budget", "256", AnAmount(),
     "what the other layers read; the row's own token is included"},
    {"heads", "q", OneOf(kHeads),
     "who chooses: q (each q head, as published) or kv (the greatest score "
     "of a group)"},
    {"select_layers", "auto", SomeLayers(),
     "layers that read everything and choose for those after them; the layers "
     "before the first read everything. auto: 2 and 9, as far as the model "
     "has them"},
};

Result<SelectProgram> Make(const SelectorValues& values,
                           const SelectorShape& shape) {
  SelectProgram program;
  program.block_tokens = 1;
  program.rows = {SummaryRows::Kind::kKeys, 1, 1, shape.kv_dtype};
  ASSIGN_OR_RETURN(const int heads, values.GetChoice("heads"));
  program.scope = heads == 0 ? Scope::kQHead : Scope::kKvHead;
  program.group = Reduction::kMax;
  program.forced.inside_budget = true;
  ASSIGN_OR_RETURN(program.budget, values.GetAmount("budget"));
  return program;
}

}  // namespace

const SelectorKind kTidalSelector = {
    .name = "tidal",
    .title = "tokens chosen in few layers, and read again in those after them",
    .source =
        "TidalDecode, arXiv 2410.05076, and its code's defaults: top 256 "
        "tokens by q k of layer 2, again of layer 9",
    .parameters = kParameters,
    .make = Make,
    .differs =
        "select_layers=auto is 2 and 9 whatever the model; its code has 13 in "
        "place "
        "of 9 for one of 32 layers: which layer corrects is tuned for a model, "
        "so "
        "name it.",
};

}  // namespace winnow
