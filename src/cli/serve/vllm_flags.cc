#include "cli/serve/vllm_flags.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "base/size_text.h"
#include "cli/command/command.h"

namespace winnow {
namespace {

constexpr double kMaxBytes = 0x1p62;

struct IdleFlag {
  const char* name;
  const char* alias;       // "": none
  const char* value_name;  // "": it takes none
  const char* only;        // the one value that is taken; "": any
  const char* reason;
};

constexpr const char* kOneDevice =
    "a model runs on one device, several are not built yet";
constexpr const char* kCallForm =
    "the chat template shows how the model writes calls";
constexpr const char* kNoWords = "no word of a request is ever logged";

constexpr IdleFlag kIdleFlags[] = {
    {"--tensor-parallel-size", "-tp", "N", "1", kOneDevice},
    {"--pipeline-parallel-size", "-pp", "N", "1", kOneDevice},
    {"--data-parallel-size", "-dp", "N", "1", kOneDevice},
    {"--enable-chunked-prefill", "", "", "",
     "a prompt is always read in chunks (--max-num-batched-tokens)"},
    {"--no-enable-chunked-prefill", "", "", "",
     "a prompt is always read in chunks (--max-num-batched-tokens)"},
    {"--enable-auto-tool-choice", "", "", "", kCallForm},
    {"--tool-call-parser", "", "NAME", "", kCallForm},
    {"--trust-remote-code", "", "", "", "no code of a checkpoint is ever run"},
    {"--enforce-eager", "", "", "", "no answer depends on it"},
    {"--kv-cache-dtype", "", "DTYPE", "auto", "KV is kept as --dtype says"},
    {"--block-size", "", "N", "", "a page is always of 32 tokens"},
    {"--swap-space", "", "GIB", "", "it is --host-kv that is on the host"},
    {"--load-format", "", "FORMAT", "auto", "checkpoints are safetensors"},
    {"--generation-config", "", "FOLDER", "auto",
     "defaults of a request are the checkpoint's"},
    {"--chat-template-content-format", "", "FORMAT", "auto",
     "the chat template shows what it reads"},
    {"--disable-log-stats", "", "", "", "they are at /metrics alone"},
    {"--enable-log-requests", "", "", "", kNoWords},
    {"--no-enable-log-requests", "", "", "", kNoWords},
    {"--disable-log-requests", "", "", "", kNoWords},
    {"--disable-uvicorn-access-log", "", "", "",
     "--log-level says which requests leave a line"},
};

// Empty where `flag` may be given so.
std::string WrongValue(const IdleFlag& flag, const std::string& text) {
  const std::string_view only = flag.only;
  if (only.empty() || text == only) return {};
  return fmt::format("must be {}, is \"{}\": {}", only, text, flag.reason);
}

void AddIdle(Command& command, const IdleFlag& flag, VllmFlags* flags) {
  const bool takes_value = *flag.value_name != '\0';
  command.AddFlag(
      {.name = flag.name,
       .value_name = flag.value_name,
       .values = takes_value ? Flag::Values::kOne : Flag::Values::kNone,
       .alias = flag.alias,
       .hidden = true},
      [flags, flag](const std::string& text) {
        std::string wrong = WrongValue(flag, text);
        if (wrong.empty()) {
          flags->idle.push_back(
              fmt::format("{} has no effect: {}", flag.name, flag.reason));
        }
        return wrong;
      });
}

TakeValue SwitchTo(bool to, bool* value) {
  return [to, value](const std::string&) {
    *value = to;
    return std::string();
  };
}

// Written as a SIZE.
TakeValue SizeText(std::string* size) {
  return [size](const std::string& text) {
    const Result<int64_t> bytes = ParseVllmBytes(text);
    if (!bytes.ok()) return bytes.error().message;
    *size = fmt::format("{}B", *bytes);
    return std::string();
  };
}

TakeValue Gibibytes(std::string* size) {
  return [size](const std::string& text) -> std::string {
    if (!ParseBytes(text + "GiB").ok()) {
      return fmt::format("must be a number of GiB, is \"{}\"", text);
    }
    *size = text + "GiB";
    return {};
  };
}

// A parser's name is as good as auto: the template shows the tags.
TakeValue ReasoningParser(VllmFlags* flags) {
  return [flags](const std::string& text) -> std::string {
    if (text.empty()) return "must be auto, none or a parser, is \"\"";
    flags->splits_thoughts = text != "none";
    if (text == "auto" || text == "none") return {};
    flags->idle.push_back(
        fmt::format("--reasoning-parser {} is taken as auto: the chat "
                    "template shows how the model marks thoughts",
                    text));
    return {};
  };
}

}  // namespace

Result<int64_t> ParseVllmBytes(const std::string& text) {
  double value = -1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] =
      std::from_chars(text.data(), end, value, std::chars_format::fixed);
  const std::string_view unit(stop, static_cast<size_t>(end - stop));
  constexpr std::string_view kUnits = "kmgt";
  double factor = unit.empty() ? 1 : 0;
  for (size_t i = 0; i < kUnits.size() && unit.size() == 1; ++i) {
    const auto power = static_cast<double>(i + 1);
    if (unit[0] == kUnits[i]) factor = std::pow(1000, power);
    if (unit[0] == kUnits[i] - 'a' + 'A') factor = std::pow(1024, power);
  }
  const double bytes = value * factor;
  if (error != std::errc() || factor == 0 || !(bytes >= 1) ||
      bytes > kMaxBytes) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "must be a number of bytes from 1, with k, m, g or t "
                     "(1000) or K, M, G or T (1024) behind it, is \"{}\"",
                     text);
  }
  return static_cast<int64_t>(bytes);
}

void AddVllmFlags(Command& command, EngineFlags* engine, VllmFlags* flags) {
  command.AddFlag({.name = "--enable-prefix-caching",
                   .help = "Requests begin with the KV that others left of the "
                           "same prompt (the default)",
                   .values = Flag::Values::kNone},
                  SwitchTo(true, &flags->prefix_caching));
  command.AddFlag({.name = "--no-enable-prefix-caching",
                   .help = "Each request reads all of its prompt",
                   .values = Flag::Values::kNone},
                  SwitchTo(false, &flags->prefix_caching));
  command.AddFlag({.name = "--reasoning-parser",
                   .value_name = "auto|none",
                   .help = "Whether thoughts are told apart from answers to "
                           "chats (default auto: where the template shows "
                           "<think> and </think>)"},
                  ReasoningParser(flags));
  command.AddFlag({.name = "--kv-cache-memory-bytes",
                   .value_name = "N",
                   .help = "--device-kv as vLLM has it (a number, 2G, 2.5g)"},
                  SizeText(&engine->device_kv));
  command.AddFlag({.name = "--kv-offloading-size",
                   .value_name = "GIB",
                   .help = "--host-kv as vLLM has it (a number of GiB)"},
                  Gibibytes(&engine->host_kv));
  std::string names;
  for (const IdleFlag& flag : kIdleFlags) {
    AddIdle(command, flag, flags);
    names += (names.empty() ? "" : ", ") + std::string(flag.name);
    if (*flag.only != '\0') names += fmt::format(" {}", flag.only);
  }
  command.SetFooter("vLLM's flags that are taken and change nothing: " + names +
                    ".");
}

}  // namespace winnow
