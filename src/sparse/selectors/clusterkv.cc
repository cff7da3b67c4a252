// ClusterKV: clusters of keys by their direction, as many of the best as have
// the budget's tokens.
//
// Departures from its code: clusters are those of a segment, made when it is
// full, by fixed rules (theirs: of the whole prompt from random centroids, then
// 8 of every 320 generated tokens); of the last cluster the first tokens are
// read.
#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

constexpr std::string_view kHeads[] = {"q", "kv"};

constexpr SelectorParameter kParameters[] = {
    {"budget", "1024", AnAmount(),
     "what is read: at least a cluster and the first ones, which are included; "
     "what follows the last full segment is not"},
    {"segment", "1024", kSegmentRange, "tokens that are clustered together"},
    {"cluster", "32", kClusterRange, "tokens of a cluster, on average"},
    {"iterations", "20", kIterationsRange, "how often centroids move"},
    {"sink", "16", TokensFrom(0),
     "first tokens, which are always read and in no cluster"},
    {"heads", "q", OneOf(kHeads),
     "who chooses: q (each q head, as published) or kv (the greatest score of "
     "a group)"},
    {"dense_layers", "0-1", SomeLayers(), "layers that read everything"},
};

Result<SelectProgram> Make(const SelectorValues& values,
                           const SelectorShape& shape) {
  SelectProgram program;
  RETURN_IF_ERROR(ReadClusters(values, shape, program));
  program.rule = Rule::kTokens;
  ASSIGN_OR_RETURN(const int heads, values.GetChoice("heads"));
  program.scope = heads == 0 ? Scope::kQHead : Scope::kKvHead;
  program.group = Reduction::kMax;
  ASSIGN_OR_RETURN(program.forced.sink_tokens, values.GetTokens("sink"));
  program.forced.inside_budget = true;
  ASSIGN_OR_RETURN(program.budget, values.GetAmount("budget"));
  return program;
}

}  // namespace

const SelectorKind kClusterKvSelector = {
    .name = "clusterkv",
    .title = "clusters of keys by their centroid, cut at the budget",
    .source =
        "ClusterKV, DAC 2025, arXiv 2412.03213, 3, and its code's defaults: 16 "
        "sinks, 20 iterations, 1024 tokens, layers 0 and 1 dense; clusters of "
        "a segment in place of the whole prompt's",
    .parameters = kParameters,
    .make = Make,
    .differs =
        "cluster=32, segment=1024; its code: 400 clusters a prompt, about 80 "
        "tokens "
        "each of 32K. A cluster is no larger than a page here, which is finer: "
        "the "
        "same budget takes more of them. Clusters of a segment are there "
        "whatever "
        "follows, so that a prefix may be shared. The first centroids are "
        "evenly "
        "spaced keys (its code: random), so that the same text has the same "
        "ones.",
};

}  // namespace winnow
