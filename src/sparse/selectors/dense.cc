#include "sparse/spec/kinds.h"

namespace winnow {

const SelectorKind kDenseSelector = {
    .name = "dense",
    .title = "reads everything",
    .source = "Vaswani et al., arXiv 1706.03762",
    .parameters = {},
    .make = [](const SelectorValues&, const SelectorShape&)
        -> Result<SelectProgram> { return SelectProgram{}; },
};

}  // namespace winnow
