// sparse_config of a MiniCPM4 checkpoint: which selector it was trained with.
#ifndef WINNOW_MODEL_CONFIG_SPARSE_CONFIG_H_
#define WINNOW_MODEL_CONFIG_SPARSE_CONFIG_H_

#include <string>

#include "model/config/json_fields.h"

namespace winnow {

// The object `sparse_config` of a config.json, read as MiniCPM4's
// modeling_minicpm.py does, as a SPEC (docs/contract.md):
// "infllm-v2:kernel=32,stride=16,block=64,budget=6144,sink=64,recent=2048,
// dense_len=8192". Fails, naming the field, where there is one that is unknown
// or asks for what the selector does not do; never leaves anything out.
Result<std::string> ReadSparseConfig(const JsonFields& fields);

}  // namespace winnow

#endif  // WINNOW_MODEL_CONFIG_SPARSE_CONFIG_H_
