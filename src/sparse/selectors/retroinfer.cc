// RetroInfer: the best clusters are read, the next best as what is kept of
// them: a mean key and value, weighted by the cluster's size.
//
// Departures from its code: the last assignment of keys stays within their
// segment, so that prefixes can be shared; segments are those of its updates
// (1024 tokens), for prompts too; keys are not moved by their mean but while
// they are clustered, so that the scores of all zones are of one kind; a
// cluster is read whole, whatever its size.
#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

constexpr SelectorParameter kParameters[] = {
    {"budget", "1.8%", AnAmount(),
     "what is read: as many clusters as that has of average size, at least "
     "one"},
    {"estimate", "23.2%", AnAmountOrNone(),
     "whose clusters come next and are estimated: at least one, or none"},
    {"segment", "1024", kSegmentRange, "tokens that are clustered together"},
    {"cluster", "16", kClusterRange, "tokens of a cluster, on average"},
    {"iterations", "9", kIterationsRange, "how often centroids move"},
    {"sink", "4", TokensFrom(0),
     "first tokens, which are always read and in no cluster"},
    {"recent", "64", TokensFrom(0),
     "last tokens, which are always read; so is what follows the last full "
     "segment before them"},
    {"dense_layers", "none", SomeLayers(), "layers that read everything"},
};

Result<SelectProgram> Make(const SelectorValues& values,
                           const SelectorShape& shape) {
  SelectProgram program;
  RETURN_IF_ERROR(ReadClusters(values, shape, program));
  program.index.centered = true;
  program.map = HeadMap::kSoftmax;
  program.group = Reduction::kSum;
  RETURN_IF_ERROR(ReadAmounts(values, program));
  ASSIGN_OR_RETURN(program.estimate, values.GetAmount("estimate"));
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
    .differs =
        "segment=1024; published: 8192 for a prompt, 1024 for what is "
        "generated. "
        "Clusters are there when a segment is full, so that a text has the "
        "same "
        "ones whatever steps it came in; until then half a segment is read as "
        "it "
        "is, and an assignment costs a product a cluster of the segment: an "
        "eighth "
        "of 8192's. A key's cluster is one of its own segment (published: the "
        "best "
        "of all), or a prefix could not be shared.",
};

}  // namespace winnow
