// The values on which KV and answers of a model depend, by name. Two models may
// share files only if all values are equal.
#ifndef WINNOW_MODEL_FORWARD_MODEL_IDENTITY_H_
#define WINNOW_MODEL_FORWARD_MODEL_IDENTITY_H_

#include <string>
#include <utility>
#include <vector>

#include "model/forward/model.h"

namespace winnow {

// Names and values, both one printable line. A name says where its value
// stands: "config.json: rope_theta", "--dtype".
using NamedValues = std::vector<std::pair<std::string, std::string>>;

// The KV of given tokens depends on these: config.json's fields that the layers
// use (of rotary embeddings, the fields of their kind), the type of the
// arithmetic, and all bytes of the weights. Sampling, tokenizer and all other
// files are not among them.
// REQUIRES: the model was loaded with WeightOptions::digests.
NamedValues KvIdentity(const Model& model);

// The further values on which logits depend.
NamedValues LogitsIdentity(const Model& model);

}  // namespace winnow

#endif  // WINNOW_MODEL_FORWARD_MODEL_IDENTITY_H_
