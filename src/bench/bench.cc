#include "bench/bench.h"

#include "bench/bench_prefill.h"
#include "bench/bench_step.h"
#include "bench/bench_tables.h"
#include "bench/bench_throughput.h"
#include "bench/bench_tiers.h"
#include "bench/ops/bench_decode.h"
#include "bench/ops/bench_ops.h"
#include "bench/roofs/bench_disk.h"
#include "bench/roofs/bench_link.h"
#include "bench/serve/bench_serve.h"
#include "cli/command/command.h"
#include "cli/command/flag_value.h"
#include "cli/command/output.h"

namespace winnow {
namespace {

constexpr int kMaxBenchTokens = 1 << 20;
constexpr int kMaxRounds = 1000;

void AddCount(Command& command, const std::string& name,
              const std::string& help, int most, int* count) {
  command.AddFlag({.name = name, .value_name = "N", .help = help},
                  WholeNumber(1, most, count));
}

void AddRoundsAndJson(Command& command, BenchFlags* flags) {
  AddCount(command, "--rounds",
           "How often to measure; medians are printed (default 3)", kMaxRounds,
           &flags->rounds);
  AddJsonFlag(command, "The figures as JSON, to standard output or to FILE",
              &flags->engine);
}

void AddModelOrShape(Command& command, BenchFlags* flags) {
  AddModelFlags(command, &flags->engine, /*model_required=*/false);
  command.AddFlag(
      {.name = "--shape",
       .value_name = "NAME",
       .help = "In place of MODEL: random weights of a published model's "
               "sizes (llama-3.1-8b, llama-3.2-1b, qwen3-14b, ...)"},
      Text(&flags->shape));
}

Status CheckModelOrShape(std::string_view command, const BenchFlags& flags) {
  if (flags.engine.model.empty() != flags.shape.empty()) return Ok{};
  return MakeError(ErrorCode::kInvalidArgument,
                   "bench {}: give either MODEL or --shape", command);
}

Status CheckOpsFlags(const BenchFlags& flags) {
  if (!flags.layouts || flags.engine.device.starts_with("cuda")) return Ok{};
  return MakeError(ErrorCode::kInvalidArgument,
                   "--layouts is for --device cuda, --device is \"{}\"",
                   flags.engine.device);
}

Command& AddStep(Command& bench, BenchFlags* flags) {
  Command& step = bench.AddCommand(
      "step",
      "Whole steps of a checkpoint: on the CPU prompt and decode rates, "
      "against the products alone and a plain parallel read; on a GPU decode "
      "steps, their launches and the gaps between these");
  AddModelOrShape(step, flags);
  AddStepFlags(step, &flags->engine);
  step.AddFlag({.name = "--prompt",
                .value_name = "LIST",
                .help = "Prompt tokens a request; on a GPU a list "
                        "(1K,128K; default 512)"},
               Text(&flags->prompts));
  AddCount(step, "--generate", "Tokens generated a request (default 32)",
           kMaxBenchTokens, &flags->generated_tokens);
  step.AddFlag({.name = "--batch",
                .value_name = "LIST",
                .help = "Requests at once; on a GPU a list (1,16; default 1)"},
               Text(&flags->step_batches));
  step.AddFlag({.name = "--select",
                .value_name = "SPEC",
                .help = "On a GPU: what attention reads, a list with commas "
                        "(default dense)"},
               Text(&flags->selects));
  AddRoundsAndJson(step, flags);
  return step;
}

Command& AddOps(Command& bench, BenchFlags* flags) {
  Command& ops = bench.AddCommand(
      "ops", "Each op at a checkpoint's shapes, against its roof", "verbs");
  AddModelOrShape(ops, flags);
  AddCount(ops, "--decode-context",
           "Tokens that a decode Attend attends (default 32768)",
           kMaxBenchTokens, &flags->decode_context_tokens);
  AddCount(ops, "--prompt-context",
           "Tokens of the prompt that Attend attends (default 16384)",
           kMaxBenchTokens, &flags->prompt_context_tokens);
  ops.AddFlag({.name = "--layouts",
               .help = "On a GPU: also Attend and Select with memory laid out "
                       "otherwise",
               .values = Flag::Values::kNone},
              Switch(&flags->layouts));
  AddRoundsAndJson(ops, flags);
  return ops;
}

Command& AddPrefill(Command& bench, BenchFlags* flags) {
  Command& prefill = bench.AddCommand(
      "prefill",
      "Prompts alone, on any device: time to the first token by length, "
      "selection and chunk, and what products and attention have of it");
  AddModelOrShape(prefill, flags);
  AddStepFlags(prefill, &flags->engine);
  prefill.AddFlag({.name = "--prompt",
                   .value_name = "LIST",
                   .help = "Prompt tokens (1K,128K; default 512)"},
                  Text(&flags->prompts));
  prefill.AddFlag({.name = "--chunk",
                   .value_name = "LIST",
                   .help = "Tokens of a prompt that a step computes (2K,8K; "
                           "default --max-num-batched-tokens)"},
                  Text(&flags->chunks));
  prefill.AddFlag({.name = "--select",
                   .value_name = "SPEC",
                   .help = "What attention reads, a list with commas "
                           "(default dense)"},
                  Text(&flags->selects));
  AddRoundsAndJson(prefill, flags);
  return prefill;
}

void AddThroughput(Command& bench, BenchFlags* flags) {
  Command& throughput = bench.AddCommand(
      "throughput",
      "Requests that arrive together, on any device: time to the first token "
      "and of a step, by context, batch and selection");
  AddModelOrShape(throughput, flags);
  AddStepFlags(throughput, &flags->engine);
  throughput.AddFlag({.name = "--contexts",
                      .value_name = "LIST",
                      .help = "Prompt tokens a request (1K,32K; default 1K)"},
                     Text(&flags->contexts));
  throughput.AddFlag({.name = "--tasks",
                      .value_name = "FILE",
                      .help = "In place of random tokens: a question of a task "
                              "file each, and how many answers are right"},
                     Word(&flags->tasks));
  throughput.AddFlag({.name = "--batches",
                      .value_name = "LIST",
                      .help = "Requests at once (1,16; default 1)"},
                     Text(&flags->batches));
  throughput.AddFlag({.name = "--select",
                      .value_name = "SPEC",
                      .help = "What attention reads, a list with commas "
                              "(default dense)"},
                     Text(&flags->selects));
  AddCount(throughput, "--generate", "Steps measured a round (default 32)",
           kMaxBenchTokens, &flags->generated_tokens);
  AddRoundsAndJson(throughput, flags);
}

Command& AddDecode(Command& bench, BenchFlags* flags) {
  Command& decode = bench.AddCommand(
      "decode",
      "Decode steps that select beside dense ones, in turn, on the CPU: what "
      "is measured, what Amdahl leaves, and dense steps of an engine that has "
      "selections for others");
  AddModelOrShape(decode, flags);
  AddStepFlags(decode, &flags->engine);
  decode.AddFlag({.name = "--context",
                  .value_name = "N",
                  .help = "Tokens of a request, whose K and V are random "
                          "(default 32K)"},
                 Text(&flags->tiers_context));
  AddCount(decode, "--batch", "Requests at once (default 1)", kMaxNumSeqs,
           &flags->tiers_batch);
  decode.AddFlag({.name = "--select",
                  .value_name = "LIST",
                  .help = "What attention reads, a list with commas (default "
                          "mean and quest, each with a budget of 2K)"},
                 Text(&flags->decode_selects));
  AddCount(decode, "--generate",
           "Steps of one before the other's turn (default 32)", kMaxBenchTokens,
           &flags->generated_tokens);
  AddRoundsAndJson(decode, flags);
  return decode;
}

Command& AddTiers(Command& bench, BenchFlags* flags) {
  Command& tiers = bench.AddCommand(
      "tiers",
      "What tiers cost a decode step: requests that are resident, with a "
      "host's "
      "pool that nobody uses, and with slots, in turn; and Fetch's lookup");
  AddModelOrShape(tiers, flags);
  AddStepFlags(tiers, &flags->engine);
  tiers.AddFlag({.name = "--prompt-file",
                 .value_name = "FILE",
                 .help = "A text that is read; else --context tokens whose K "
                         "and V are random"},
                Text(&flags->prompt_file));
  tiers.AddFlag({.name = "--context",
                 .value_name = "N",
                 .help = "Prompt tokens without --prompt-file (default 32K)"},
                Text(&flags->tiers_context));
  AddCount(tiers, "--batch", "Requests at once (default 1)", kMaxNumSeqs,
           &flags->tiers_batch);
  tiers.AddFlag({.name = "--select",
                 .value_name = "SPEC",
                 .help = "What attention reads (default quest:budget=1K)"},
                Text(&flags->tiers_select));
  tiers.AddFlag({.name = "--cache-budget",
                 .value_name = "LIST",
                 .help = "Slots: tokens or multiples of the selection's budget "
                         "(2x,4x; default 4x), or none"},
                Text(&flags->cache_budgets));
  tiers.AddFlag(
      {.name = "--hints",
       .value_name = "LIST",
       .help = "What becomes of next ranks: none, keep, or the least "
               "age of slots that they are fetched into (none,keep,8; "
               "default keep)"},
      Text(&flags->tiers_hints));
  tiers.AddFlag({.name = "--kv-disk",
                 .value_name = "DIR",
                 .help = "A row more: a disk there that nobody uses once it "
                         "has the prompt; what is written is removed"},
                Word(&flags->kv_disk));
  AddCount(tiers, "--generate",
           "Steps of a kind before the next one's turn (default 32)",
           kMaxBenchTokens, &flags->generated_tokens);
  AddRoundsAndJson(tiers, flags);
  return tiers;
}

Command& AddDisk(Command& bench, BenchFlags* flags) {
  Command& disk = bench.AddCommand(
      "disk", "Pages restored from a disk, against a plain read of them");
  disk.AddFlag({.name = "--kv-disk",
                .value_name = "DIR",
                .help = "Where to write and read; what is written is removed",
                .required = true},
               Word(&flags->kv_disk));
  disk.AddFlag({.name = "--kv-disk-size",
                .value_name = "SIZE",
                .help = "How much, in memory as well (default 1GiB)"},
               Word(&flags->kv_disk_size));
  disk.AddFlag({.name = "--piece",
                .value_name = "SIZE",
                .help = "A page over all layers (default 4MiB)"},
               Word(&flags->disk_piece));
  AddRoundsAndJson(disk, flags);
  return disk;
}

Command& AddLink(Command& bench, BenchFlags* flags) {
  Command& link = bench.AddCommand(
      "link",
      "How fast pages come from the host, how fast prompts are computed, and "
      "which of the two an engine chooses");
  AddModelOrShape(link, flags);
  AddStepFlags(link, &flags->engine);
  link.AddFlag({.name = "--prompt",
                .value_name = "LIST",
                .help = "Prompt tokens (1K,32K; default 512)"},
               Text(&flags->prompts));
  AddRoundsAndJson(link, flags);
  return link;
}

Command& AddTables(Command& bench, BenchFlags* flags) {
  Command& tables = bench.AddCommand(
      "tables",
      "What the tables take that lead to KV, of requests that have slots");
  tables.AddFlag({.name = "--shape",
                  .value_name = "NAME",
                  .help = "A published model's sizes (default llama-3.1-8b)"},
                 Text(&flags->tables_shape));
  tables.AddFlag({.name = "--contexts",
                  .value_name = "LIST",
                  .help = "Tokens of each request (default "
                          "8K,32K,128K,512K,1M)"},
                 Text(&flags->tables_contexts));
  tables.AddFlag({.name = "--batches",
                  .value_name = "LIST",
                  .help = "Requests at once (default 1,4,16,32,64,256)"},
                 Text(&flags->tables_batches));
  tables.AddFlag({.name = "--select",
                  .value_name = "LIST",
                  .help = "What attention reads (default "
                          "quest:budget=2K,block=32)"},
                 Text(&flags->tables_selects));
  AddJsonFlag(tables, "The figures as JSON, to standard output or to FILE",
              &flags->engine);
  return tables;
}

}  // namespace

Command& AddBenchCommand(Command& program, BenchFlags* flags) {
  Command& bench =
      program.AddCommand("bench",
                         "Measure this machine (step, ops, "
                         "prefill, throughput, decode, tiers, disk, "
                         "link), or a server (serve); size tables "
                         "(tables)");
  flags->step_command = &AddStep(bench, flags);
  flags->ops_command = &AddOps(bench, flags);
  flags->prefill_command = &AddPrefill(bench, flags);
  AddThroughput(bench, flags);
  flags->decode_command = &AddDecode(bench, flags);
  flags->tiers_command = &AddTiers(bench, flags);
  flags->disk_command = &AddDisk(bench, flags);
  flags->link_command = &AddLink(bench, flags);
  flags->tables_command = &AddTables(bench, flags);
  flags->serve_command = &AddBenchServe(bench, &flags->serve);
  return bench;
}

Result<int> RunBench(const BenchFlags& flags) {
  if (flags.serve_command->chosen()) return RunBenchServe(flags.serve);
  if (flags.step_command->chosen()) {
    RETURN_IF_ERROR(CheckModelOrShape("step", flags));
    RETURN_IF_ERROR(CheckStepFlags(flags));
  } else if (flags.ops_command->chosen()) {
    RETURN_IF_ERROR(CheckModelOrShape("ops", flags));
    RETURN_IF_ERROR(CheckOpsFlags(flags));
    RETURN_IF_ERROR(CheckEngineFlags(flags.engine, /*selects=*/{}));
  } else if (flags.prefill_command->chosen()) {
    RETURN_IF_ERROR(CheckModelOrShape("prefill", flags));
    RETURN_IF_ERROR(CheckPrefillFlags(flags));
  } else if (flags.decode_command->chosen()) {
    RETURN_IF_ERROR(CheckModelOrShape("decode", flags));
    RETURN_IF_ERROR(CheckDecodeFlags(flags));
  } else if (flags.tiers_command->chosen()) {
    RETURN_IF_ERROR(CheckModelOrShape("tiers", flags));
    RETURN_IF_ERROR(CheckTiersFlags(flags));
  } else if (flags.tables_command->chosen()) {
    RETURN_IF_ERROR(CheckJsonFile(flags.engine));
    return RunBenchTables(flags);
  } else if (flags.link_command->chosen()) {
    RETURN_IF_ERROR(CheckModelOrShape("link", flags));
    RETURN_IF_ERROR(CheckLinkFlags(flags));
  } else if (flags.disk_command->chosen()) {
    RETURN_IF_ERROR(CheckEngineFlags(flags.engine, /*selects=*/{}));
  } else {
    RETURN_IF_ERROR(CheckModelOrShape("throughput", flags));
    RETURN_IF_ERROR(CheckThroughputFlags(flags));
  }
  RETURN_IF_ERROR(CheckJsonFile(flags.engine));
  return flags.step_command->chosen()      ? RunBenchStep(flags)
         : flags.ops_command->chosen()     ? RunBenchOps(flags)
         : flags.prefill_command->chosen() ? RunBenchPrefill(flags)
         : flags.decode_command->chosen()  ? RunBenchDecode(flags)
         : flags.tiers_command->chosen()   ? RunBenchTiers(flags)
         : flags.disk_command->chosen()    ? RunBenchDisk(flags)
         : flags.link_command->chosen()    ? RunBenchLink(flags)
                                           : RunBenchThroughput(flags);
}

}  // namespace winnow
