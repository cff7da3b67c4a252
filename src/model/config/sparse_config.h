// ReadSparseConfig: the selector that a MiniCPM4 checkpoint was trained with.
#ifndef WINNOW_MODEL_CONFIG_SPARSE_CONFIG_H_
#define WINNOW_MODEL_CONFIG_SPARSE_CONFIG_H_

#include <string>

#include "model/config/json_fields.h"

namespace winnow {

// Reads the object `sparse_config` of a config.json, as MiniCPM4's
// modeling_minicpm.py does. Returns a SPEC (docs/contract.md):
// "infllm-v2:kernel=32,stride=16,block=64,budget=6144,sink=64,recent=2048,dense_len=8192".
// Fails, naming the field, if a field is unknown or asks for a feature that the
// selector lacks. Never ignores a field.
Result<std::string> ReadSparseConfig(const JsonFields& fields);

}  // namespace winnow

#endif  // WINNOW_MODEL_CONFIG_SPARSE_CONFIG_H_
