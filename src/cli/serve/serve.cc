#include "cli/serve/serve.h"

#include <functional>

#include "cli/command/command.h"
#include "cli/command/flag_value.h"

namespace winnow {
namespace {

constexpr int kMaxInterTokenMs = 1'000'000;

void AddModelNames(Command& command, ServeFlags* flags) {
  command.AddFlag(
      {.name = "--served-model-name",
       .value_name = "NAME",
       .help = "What requests call the model; several are its names "
               "all, the first in answers (default: the folder's "
               "name)",
       .values = Flag::Values::kSeveral},
      EachWord(&flags->served_model_names));
  command.AddFlag(
      {.name = "--chat-template",
       .value_name = "FILE",
       .help = "Jinja template of chats (default: the checkpoint's, "
               "if it has one)"},
      Text(&flags->chat_template));
  command.AddFlag(
      {.name = "--select",
       .value_name = "SPEC",
       .help = "What attention reads (winnow select list); several, with "
               "commas or again, are what a request may choose from, the first "
               "unasked",
       .values = Flag::Values::kOneEachTime},
      EachText(&flags->selects));
}

void AddDoor(Command& command, ServeFlags* flags) {
  command.AddFlag({.name = "--host",
                   .value_name = "ADDRESS",
                   .help = "Address to listen on (default 127.0.0.1; 0.0.0.0: "
                           "every one, for other machines)"},
                  Text(&flags->host));
  command.AddFlag({.name = "--port",
                   .value_name = "N",
                   .help = "Port (default 8000; 0: a free one)"},
                  WholeNumber(0, kMaxPort, &flags->port));
  command.AddFlag(
      {.name = "--api-key",
       .value_name = "KEY",
       .help = "What clients must send but to /health (default: "
               "the environment's WINNOW_API_KEY, VLLM_API_KEY, else "
               "nothing)"},
      Word(&flags->api_key));
  command.AddFlag({.name = "--allowed-host",
                   .value_name = "NAME",
                   .help = "A name by which clients reach it, where it listens "
                           "on this machine alone and without a key (default: "
                           "addresses, localhost and --host; may be repeated)",
                   .values = Flag::Values::kOneEachTime},
                  EachText(&flags->allowed_hosts));
  command.AddFlag({.name = "--allowed-origins",
                   .value_name = "ORIGIN",
                   .help = "Whose pages may ask it from a browser "
                           "(https://chat.example, *: everyone's; default: "
                           "none but its own; may be repeated)",
                   .values = Flag::Values::kOneEachTime},
                  EachText(&flags->allowed_origins));
}

void AddLimit(Command& command, const char* name, const char* value_name,
              const char* help, TakeValue take) {
  command.AddFlag({.name = name, .value_name = value_name, .help = help},
                  std::move(take));
}

void AddLimits(Command& command, ServeFlags* flags) {
  const auto add = std::bind_front(AddLimit, std::ref(command));
  add("--default-max-tokens", "N",
      "Tokens that a chat generates at most where it does not say (default "
      "4096)",
      WholeNumber(1, INT32_MAX, &flags->default_max_tokens));
  add("--max-queued-requests", "N",
      "Requests that wait beside those that run; more are refused (default "
      "4096)",
      WholeNumber(0, 1 << 20, &flags->max_queued_requests));
  add("--max-n", "N", "Answers a request may ask for (default 16)",
      WholeNumber(1, 1 << 12, &flags->max_n));
  add("--max-connections", "N",
      "Connections at once; the limit of open files is raised for them "
      "(default 4096, or fewer where its hard limit is lower)",
      WholeNumber(1, 1 << 20, &flags->max_connections));
  add("--max-body-size", "SIZE", "Of a request (default 32MiB)",
      Text(&flags->max_body_size));
  add("--max-bodies-size", "SIZE",
      "Of all bodies of more than 64 KiB that are received, wait or are worked "
      "on at once; more are refused (default: eight times --max-body-size)",
      Text(&flags->max_bodies_size));
  add("--max-encoding-size", "SIZE",
      "Of long requests that are read and encoded at once, which takes some 90 "
      "times as much memory; more wait, and a longer text is refused (default: "
      "--max-body-size)",
      Text(&flags->max_encoding_size));
  add("--max-header-size", "BYTES", "Of a request (default 16384)",
      WholeNumber(1 << 10, 1 << 20, &flags->max_header_bytes));
  add("--max-json-depth", "N",
      "Levels that a request's JSON nests (default 32)",
      WholeNumber(4, 1 << 10, &flags->max_json_depth));
  add("--max-grammar-size", "SIZE",
      "Of a schema, expression or grammar that an answer is held to (default "
      "256KiB)",
      Text(&flags->max_grammar_size));
  add("--max-grammar-states", "N",
      "Of the automaton that a request's grammar becomes, 1 to 2 KiB each "
      "(default 50000)",
      WholeNumber(1 << 10, 1 << 20, &flags->max_grammar_states));
  add("--max-grammar-time", "MS",
      "Of a processor for a token of such an answer, in the mean (default 5)",
      WholeNumber(1, 1000, &flags->max_grammar_ms));
  add("--max-watched-requests", "N",
      "Requests at once that are told what each token reads; more are refused "
      "(default 2; 0: none)",
      WholeNumber(0, 1 << 10, &flags->max_watched_requests));
  add("--max-read-ranges", "N",
      "Ranges of tokens that are told of a watched token and layer (default "
      "256)",
      WholeNumber(1, 1 << 16, &flags->max_read_ranges));
}

void AddTimes(Command& command, ServeFlags* flags) {
  const auto add = std::bind_front(AddLimit, std::ref(command));
  add("--header-timeout", "SECONDS", "For a request's headers (default 10)",
      WholeNumber(1, kMaxSeconds, &flags->header_timeout_s));
  add("--idle-timeout", "SECONDS",
      "Between two requests of a connection, and for a body (default 60)",
      WholeNumber(1, kMaxSeconds, &flags->idle_timeout_s));
  add("--write-timeout", "SECONDS",
      "For a client that does not read its answer (default 30)",
      WholeNumber(1, kMaxSeconds, &flags->write_timeout_s));
  add("--request-timeout", "SECONDS",
      "From a request's first byte to its end, waiting included; a request may "
      "say less (1.5; default 0: no end)",
      NumberUpTo(kMaxSeconds, &flags->request_timeout_s));
  add("--max-inter-token-time", "MS",
      "That a step is foretold to take at most beside requests that generate: "
      "prompts get the rows that fit in, a page a step at least (default 500; "
      "0: --max-num-batched-tokens alone)",
      NumberUpTo(kMaxInterTokenMs, &flags->max_inter_token_ms));
}

void AddDisk(Command& command, ServeFlags* flags) {
  AddKvDiskFlags(command, &flags->kv_disk);
  command.AddFlag(
      {.name = "--kv-disk-drain-timeout",
       .value_name = "SECONDS",
       .help = "How long a server that ends goes on writing what it has not "
               "written to --kv-disk yet, once all answers are told (default "
               "30; 0: not at all)"},
      WholeNumber(0, kMaxSeconds, &flags->kv_disk_drain_s));
}

void AddLog(Command& command, ServeFlags* flags) {
  command.AddFlag(
      {.name = "--log-format",
       .value_name = "json|text",
       .help = "Of the line that each request leaves on standard error: json, "
               "or text (default json)"},
      OneOf({"json", "text"}, &flags->log_format));
  command.AddFlag(
      {.name = "--log-level",
       .value_name = "info|warning|error|none",
       .help = "Which requests leave one: info, all; warning, those that were "
               "refused, cut short or failed; error, those that failed; none "
               "(default info; with --quiet none)"},
      OneOf({"info", "warning", "error", "none"}, &flags->log_level));
  command.AddFlag({.name = "--scheduler-trace",
                   .value_name = "FILE",
                   .help = "Writes what the scheduler was given and decided, a "
                           "line of JSON a decision (default: nothing)"},
                  Text(&flags->scheduler_trace));
  command.AddFlag({.name = "--max-scheduler-trace-size",
                   .value_name = "SIZE",
                   .help = "Of that file: before it is longer it ends, and a "
                           "warning says so (default 256MiB)"},
                  Text(&flags->max_scheduler_trace_size));
}

}  // namespace

Command& AddServeCommand(Command& program, ServeFlags* flags) {
  Command& command = program.AddCommand(
      "serve", "Serve a model to clients of OpenAI's or Anthropic's interface");
  AddEngineFlags(command, &flags->engine);
  AddDisk(command, flags);
  AddDoor(command, flags);
  AddModelNames(command, flags);
  AddLimits(command, flags);
  AddTimes(command, flags);
  AddLog(command, flags);
  AddVllmFlags(command, &flags->engine, &flags->vllm);
  return command;
}

}  // namespace winnow
