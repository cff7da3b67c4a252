// The tokenizers that tests read (tests/golden/README.md).
#ifndef WINNOW_CLI_COMMAND_GOLDEN_TOKENIZERS_H_
#define WINNOW_CLI_COMMAND_GOLDEN_TOKENIZERS_H_

#include <filesystem>

#include "source_dir.h"

namespace winnow {

inline const std::filesystem::path kTokenizers =
    std::filesystem::path(WINNOW_SOURCE_DIR) / "tests/golden/tokenizers";
inline const std::filesystem::path kTokenizer = kTokenizers / "llama3";

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_GOLDEN_TOKENIZERS_H_
