// RetroInfer: the best clusters are read, the next best as what is kept of
// them: a mean key and value, weighted by the cluster's size.
//
// Departures from its code: the last assignment of keys stays within their
// segment, so that prefixes can be shared; segments are those of its updates
// (1024 tokens), for prompts too; keys are not moved by their mean but while
// they are clustered, so that the scores of all zones are of one kind; a
// cluster is read whole, whatever its size.
#include "sparse/kinds.h"

namespace winnow {
namespace {

constexpr SelectorParameter kParameters[] = {
    {"budget", "1.8%",
     "tokens whose clusters are read, or a share: as many clusters as that "
     "has of average size"},
    {"estimate", "23.2%",
     "tokens whose clusters come next and are estimated, or a share; 0: none"},
    {"segment", "1024",
     "tokens that are clustered together: a power of two, 32 to 65536"},
    {"cluster", "16", "tokens of a cluster, on average: 1 to 32"},
    {"iterations", "9", "how often centroids move: 1 to 100"},
    {"sink", "4", "first tokens, which are always read and in no cluster"},
    {"recent", "64",
     "last tokens, which are always read; so is what follows the last full "
     "segment before them"},
    {"dense_layers", "none", "layers that read everything"},
};

Result<SelectProgram> Make(const SelectorValues& values,
                           const SelectorShape& shape) {
  SelectProgram program;
  RETURN_IF_ERROR(ReadClusters(values, shape, program));
  program.index.centered = true;
  program.map = HeadMap::kSoftmax;
  program.group = Reduction::kSum;
  RETURN_IF_ERROR(ReadAmounts(values, program));
  if (values.GetText("estimate") != "0") {
    ASSIGN_OR_RETURN(program.estimate, values.GetAmount("estimate"));
  }
  return program;
}

}  // namespace

const SelectorKind kRetroInferSelector = {
    .name = "retroinfer",
    .title = "clusters of keys, the best read and the next best estimated",
    .source =
        "RetroInfer, arXiv 2505.02922, 3, and its code's defaults: clusters of "
        "16, 1.8% read and 23.2% estimated, 4 + 64 always; clusters of a "
        "segment throughout",
    .parameters = kParameters,
    .make = Make,
};

}  // namespace winnow
