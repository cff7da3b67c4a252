// What KV and answers of a model depend on, by name: files may only be shared
// with a model of which all of it is equal.
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

// What the KV of given tokens depends on: how config.json has the layers
// computed, the type that they are computed in, and all bytes of the weights.
// Of rotary embeddings, what their kind uses. Neither what draws tokens nor
// what makes them of text is among it, nor any other file of the folder.
// REQUIRES: the model was loaded with WeightOptions::digests.
NamedValues KvIdentity(const Model& model);

// What logits depend on besides.
NamedValues LogitsIdentity(const Model& model);

}  // namespace winnow

#endif  // WINNOW_MODEL_FORWARD_MODEL_IDENTITY_H_
