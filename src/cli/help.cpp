#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/settings.h"

namespace ebb::cli {

namespace {

constexpr std::size_t kFlagColumn = 30;

struct CommandText {
  Command command;
  const char* usage;
  const char* text;
};
constexpr std::array<CommandText, 11> kTexts{{
    {Command::Run, "ebb run -p TEXT [flags]",
     "Prints one answer: the answer alone on stdout, everything else on stderr. An instruct model answers the text; a "
     "base\n"
     "model, or any model with --raw, continues it. The prompt is -p, then -f, then what comes through a pipe, with a "
     "blank\n"
     "line between; one newline at the end of a file or pipe is dropped.\n\n"
     "  ebb run -m gemma-3-270m.gguf -p \"The capital of Japan is\" -n 16 --temp 0\n"
     "  ebb run -f question.txt -sys \"Answer in one sentence.\" --json\n"
     "  git diff | ebb run -p \"Summarise this change:\"\n"},
    {Command::Chat, "ebb chat [flags]",
     "A conversation in the terminal. Ctrl-C stops an answer, Ctrl-D leaves, /help lists the commands (/reset, "
     "/regen,\n"
     "/save FILE, /load FILE, /memory, ...). Through a pipe each line is one message.\n\n"
     "  ebb chat -m gemma-3-4b-it.gguf -sys \"You are terse.\"\n"},
    {Command::Tokenize, "ebb tokenize [flags] [TEXT]",
     "Text to token ids, from TEXT, -f FILE or a pipe, byte for byte; --decode is the way back.\n\n"
     "  ebb tokenize \"Hello world\" --pieces\n"
     "  ebb tokenize -f book.txt | ebb tokenize --decode\n"},
    {Command::Perplexity, "ebb perplexity -f FILE [-c N] [flags]",
     "How surprised the model is by a text: windows of N tokens, the second half of each scored, lower is better.\n\n"
     "  ebb perplexity -m model.gguf -f text.txt -c 512\n"},
    {Command::BenchSpeed, "ebb bench speed [flags]",
     "Tokens a second: reading prompts of -p tokens and writing answers of -n tokens, the median of -r runs after one "
     "to\n"
     "warm up, and the peak memory of the process.\n\n"
     "  ebb bench speed -m model.gguf -p 512,2048 -n 128 -r 7 -o csv\n"},
    {Command::Plan, "ebb plan [--json] [flags]",
     "Whether a model fits, before anything is loaded: bytes by device and kind, where each layer goes, and what to "
     "change\n"
     "when it does not fit. Reads headers only; the devices may be pretended ones.\n\n"
     "  ebb plan -m gemma-3-12b-it-q4_0.gguf -dev fake:24GiB -c 32768\n"
     "  ebb plan -m gemma-3-27b-it-q4_0.gguf -dev fake:16GiB,fake:8GiB -c 0 -ctk q8_0 -ctv q8_0 --json\n"},
    {Command::Memory, "ebb memory [--watch] [--json] [flags]",
     "What memory holds, by device and kind, as the devices count it. Without -m it shows this machine's devices; with "
     "-m "
     "it\n"
     "opens the model first and shows what was planned beside what is held.\n\n"
     "  ebb memory --watch\n"
     "  ebb memory -m gemma-3-12b-it-q4_0.gguf -dev fake:24GiB --json\n"},
    {Command::BenchMemory, "ebb bench memory [flags]",
     "What a chat costs and gives back: the same turns under four strategies (none, after each answer, also every N "
     "turns,\n"
     "three levels), and resets after short and long chats; bytes by the device's own count.\n\n"
     "  ebb bench memory -m gemma-3-270m.gguf -dev fake:24GiB --turns 10 --svg memory.svg\n"},
    {Command::Soak, "ebb soak [--turns N] [--time S] [flags]",
     "Chats with turns, resets, stopped answers and parking, several side by side with -np, and prints what stays "
     "held\n"
     "after each round. Fails when that floor creeps upwards.\n\n"
     "  ebb soak -m gemma-3-270m.gguf --turns 2000 -np 4\n"},
    {Command::Doctor, "ebb doctor [flags]",
     "What this machine has, whether the model opens, which variables are set, and what to do about each fault.\n"},
    {Command::ListDevices, "ebb --list-devices [-dev LIST]",
     "The devices models can live on, with free and total memory.\n"},
}};

struct GroupTitle {
  Group group;
  const char* title;
};
constexpr std::array<GroupTitle, 6> kGroups{
    {{Group::Prompt, "What is asked"},
     {Group::Answer, "How long"},
     {Group::Sampling, "How the next token is chosen (in this order after the penalties: top-k, top-p, min-p, temp)"},
     {Group::Output, "What is printed"},
     {Group::Model, "The model and how it runs"},
     {Group::Memory, "Memory (in config.yaml: the block memory_management)"}}};

// "-c, --ctx-size N": short spellings first, as people type them.
std::string flag_column(const Setting& setting) {
  std::string column;
  for (const std::string_view alias : setting.aliases) {
    if (!alias.starts_with("--")) column += fmt::format("{}, ", alias);
  }
  column += fmt::format("--{}", setting.name);
  if (!setting.value.empty()) column += fmt::format(" {}", setting.value);
  return column;
}

std::string group_help(Command command, const GroupTitle& title) {
  std::string text;
  for (const Setting& setting : settings()) {
    if (setting.group != title.group || !belongs_to(setting, command)) continue;
    const std::string column = flag_column(setting);
    const bool fits = column.size() + 2 <= kFlagColumn;
    text += fits ? fmt::format("  {:<{}}{}\n", column, kFlagColumn, setting.help)
                 : fmt::format("  {}\n  {:<{}}{}\n", column, "", kFlagColumn, setting.help);
  }
  return text.empty() ? text : fmt::format("\n{}\n{}", title.title, text);
}

}  // namespace

std::string general_help() {
  return "Ebb runs Gemma 3 on this machine.\n\n"
         "  ebb chat                        talk to the model\n"
         "  ebb run -p TEXT                 one answer on stdout; reads a pipe\n"
         "  ebb tokenize TEXT               text to token ids, and back with --decode\n"
         "  ebb perplexity -f FILE          how surprised the model is by a text\n"
         "  ebb plan                        does the model fit, where does each part go\n"
         "  ebb memory [--watch]            what holds memory, by device and kind\n"
         "  ebb bench speed                 tokens a second, and peak memory\n"
         "  ebb bench memory                what a chat holds and gives back, by strategy\n"
         "  ebb soak                        turns and resets for hours; fails when memory creeps\n"
         "  ebb doctor                      what is here, and what to mend\n"
         "  ebb --list-devices, --version\n\n"
         "First steps\n"
         "  ebb run -m gemma-3-270m.gguf -p \"The capital of Japan is\" -n 16 --temp 0\n"
         "  ebb chat -m gemma-3-4b-it.gguf\n"
         "  ebb run -h                      every flag of a command, by task\n\n"
         "Settings\n"
         "  The command line wins, then variables (EBB_MODEL for --model, EBB_CTX_SIZE for --ctx-size, ...), then "
         "config.yaml\n"
         "  in $XDG_CONFIG_HOME/ebb or ~/.config/ebb, or the file --config names (keys: model, ctx_size, temp, ...; "
         "about\n"
         "  memory: the block memory_management).\n"
         "  -m takes a file, a folder, or a name in ~/.cache/ebb/models ($EBB_CACHE/models).\n\n"
         "Exit codes: 0 done, 1 failed, 2 wrong use, 130 stopped by Ctrl-C.\n";
}

std::string command_help(Command command) {
  const auto* text = std::ranges::find(kTexts, command, &CommandText::command);
  std::string help = fmt::format("Usage: {}\n\n{}", text->usage, text->text);
  for (const GroupTitle& title : kGroups) help += group_help(command, title);
  return help;
}

}  // namespace ebb::cli
