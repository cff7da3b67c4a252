// A file that a command is to write is none that it is to read: checked before
// the work, as writing takes its place.
#ifndef WINNOW_CLI_TASK_WRITTEN_FILE_H_
#define WINNOW_CLI_TASK_WRITTEN_FILE_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace winnow {

// Whether the file of `flag` is no task file by what it begins with: `--json
// a.jsonl` is meant to be another one, now and then. Nothing is wrong with a
// path that is empty or names none.
Status CheckIsNoTaskFile(std::string_view flag, const std::string& path);

// Whether these are two files, by their names or where both are there. An empty
// path is none.
Status CheckAreTwoFiles(std::string_view flag, const std::string& path,
                        std::string_view other_flag,
                        const std::string& other_path);

}  // namespace winnow

#endif  // WINNOW_CLI_TASK_WRITTEN_FILE_H_
