#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <exception>
#include <new>

#include "base/lost_mapping.h"
#include "bench/bench.h"
#include "cli/command/command.h"
#include "cli/command/output.h"
#include "cli/eval/eval.h"
#include "cli/generate/generate.h"
#include "cli/info/info.h"
#include "cli/info/select.h"
#include "cli/serve/serve.h"
#include "cli/simulate/simulate.h"
#include "cli/simulate/trace.h"

namespace winnow {
namespace {

// Exit statuses, told in --help: wrong usage is told from work that failed.
constexpr int kUsageError = 2;
constexpr int kFailure = 1;
constexpr char kFooter[] =
    "Exit status: 0 done; 2 the command line asks for what cannot be (an "
    "unknown flag, a value out of range, a prompt longer than the context); 1 "
    "it could not be done (a file, memory, the output); 130 interrupted.";

// A closed standard stream would lend its number to the next file opened, and
// what is printed would go there. This one refuses to be written to.
void HoldStandardStreams() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDONLY);
  if (fd >= 0) close(fd);
}

// `status`, unless what was printed did not all arrive.
int StatusOfOutput(int status) {
  const Status flushed = FlushOutput();
  if (status != 0 || flushed.ok()) return status;
  PrintError(flushed.error().message);
  return kFailure;
}

Result<int> Run(int argc, char** argv) {
  Command program(
      "Winnow: LLM inference that reads only the part of the KV cache that "
      "matters",
      "winnow " WINNOW_VERSION, kFooter);
  GenerateFlags generate;
  InfoFlags info;
  EvalFlags eval;
  SelectFlags select;
  BenchFlags bench;
  ServeFlags serve;
  TraceFlags trace;
  SimulateFlags simulate;
  const Command& generate_command = AddGenerateCommand(program, &generate);
  const Command& serve_command = AddServeCommand(program, &serve);
  const Command& info_command = AddInfoCommand(program, &info);
  const Command& eval_command = AddEvalCommand(program, &eval);
  const Command& trace_command = AddTraceCommand(program, &trace);
  const Command& simulate_command = AddSimulateCommand(program, &simulate);
  const Command& select_command = AddSelectCommand(program, &select);
  AddBenchCommand(program, &bench);
  ASSIGN_OR_RETURN(const bool has_work, program.Parse(argc, argv));
  if (!has_work) return 0;
  return generate_command.chosen()   ? RunGenerate(generate)
         : serve_command.chosen()    ? RunServe(serve)
         : info_command.chosen()     ? RunInfo(info)
         : eval_command.chosen()     ? RunEval(eval)
         : trace_command.chosen()    ? RunTrace(trace)
         : simulate_command.chosen() ? RunSimulate(simulate)
         : select_command.chosen()   ? RunSelect(select)
                                     : RunBench(bench);
}

// What throws is not ours: the standard library where memory ends, most of
// all.
int Main(int argc, char** argv) {
  try {
    const Result<int> status = Run(argc, argv);
    if (status.ok()) return *status;
    PrintError(status.error().message);
    return status.error().code == ErrorCode::kInvalidArgument ? kUsageError
                                                              : kFailure;
  } catch (const std::bad_alloc&) {
    PrintError("memory does not suffice");
  } catch (const std::exception& error) {
    PrintError(error.what());
  }
  return kFailure;
}

}  // namespace
}  // namespace winnow

int main(int argc, char** argv) {
  winnow::HoldStandardStreams();
  // A limit of file sizes, or a pipe that nobody reads, fails the write, which
  // is told, not the process.
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  winnow::EndWhereMappingsAreLost("winnow: ", winnow::kFailure);
  return winnow::StatusOfOutput(winnow::Main(argc, argv));
}
