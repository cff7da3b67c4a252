#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string_view>

#include "cli/bench.h"
#include "cli/eval.h"
#include "cli/generate.h"
#include "cli/info.h"
#include "cli/select.h"

namespace winnow {
namespace {

// Exit statuses: wrong usage is told from work that failed.
constexpr int kUsageError = 2;
constexpr int kFailure = 1;

// A closed standard stream would lend its number to the next file opened, and
// what is printed would go there. This one refuses to be written to.
void HoldStandardStreams() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDONLY);
  if (fd >= 0) close(fd);
}

// `status`, unless what was printed did not all arrive.
int StatusOfOutput(int status) {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return status;
  if (status == 0) {
    std::fputs("winnow: standard output: not all could be written\n", stderr);
  }
  return status == 0 ? kFailure : status;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Winnow: LLM inference that reads only the part of the KV cache that "
      "matters");
  app.name("winnow");
  app.set_version_flag("--version", "winnow " WINNOW_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);

  GenerateFlags generate;
  InfoFlags info;
  EvalFlags eval;
  SelectFlags select;
  BenchFlags bench;
  CLI::App* generate_command = AddGenerateCommand(app, &generate);
  CLI::App* info_command = AddInfoCommand(app, &info);
  CLI::App* eval_command = AddEvalCommand(app, &eval);
  CLI::App* select_command = AddSelectCommand(app, &select);
  AddBenchCommand(app, &bench);
  // The library would say that a command is required, not that this one is
  // unknown.
  const std::string_view command = argc > 1 ? argv[1] : "--help";
  const bool known = command == "generate" || command == "info" ||
                     command == "eval" || command == "select" ||
                     command == "bench" || command.starts_with("-");
  if (!known) {
    std::fprintf(
        stderr,
        "winnow: command must be generate, eval, info, select or bench, is "
        "%s\n",
        argv[1]);
    return kUsageError;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // The library's own way of ending: --help, --version, or a usage error.
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "winnow: %s\n", error.what());
    return kUsageError;
  }
  Result<int> status = generate_command->parsed() ? RunGenerate(generate)
                       : info_command->parsed()   ? RunInfo(info)
                       : eval_command->parsed()   ? RunEval(eval)
                       : select_command->parsed() ? RunSelect(select)
                                                  : RunBench(bench);
  if (status.ok()) return *status;
  std::fprintf(stderr, "winnow: %s\n", status.error().message.c_str());
  return status.error().code == ErrorCode::kInvalidArgument ? kUsageError
                                                            : kFailure;
}

}  // namespace
}  // namespace winnow

int main(int argc, char** argv) {
  winnow::HoldStandardStreams();
  return winnow::StatusOfOutput(winnow::Main(argc, argv));
}
