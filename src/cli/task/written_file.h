// Checks that an output file is not an input file. They run before the work,
// because writing replaces the file.
#ifndef WINNOW_CLI_TASK_WRITTEN_FILE_H_
#define WINNOW_CLI_TASK_WRITTEN_FILE_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace winnow {

// Fails if the file of `flag` looks like a task file by its beginning: users
// sometimes pass `--json a.jsonl` by mistake. Accepts a path that is empty or
// does not exist.
Status CheckIsNoTaskFile(std::string_view flag, const std::string& path);

// Fails if both paths are one file, by name or by identity. Accepts an empty
// path.
Status CheckAreTwoFiles(std::string_view flag, const std::string& path,
                        std::string_view other_flag,
                        const std::string& other_path);

}  // namespace winnow

#endif  // WINNOW_CLI_TASK_WRITTEN_FILE_H_
