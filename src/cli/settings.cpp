#include "cli/settings.h"

#include <algorithm>
#include <limits>

#include "base/bytes.h"
#include "cli/parse_value.h"

namespace ebb::cli {

namespace {

using Text = std::string_view;

constexpr std::int64_t kMaxThreads = 1024;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;
constexpr float kMaxPenalty = 1000.0F;

constexpr std::uint32_t bit(Command command) { return static_cast<std::uint32_t>(command); }
constexpr std::uint32_t kAnswers = bit(Command::Run) | bit(Command::Chat);
constexpr std::uint32_t kComputes = kAnswers | bit(Command::Perplexity) | bit(Command::BenchSpeed);
constexpr std::uint32_t kOpensModel = kComputes | bit(Command::Tokenize) | bit(Command::Doctor);
constexpr std::uint32_t kEvery = kOpensModel | bit(Command::ListDevices);

template <typename T>
Status set_integer(T& target, Text text, std::int64_t lowest, std::int64_t highest) {
  EBB_TRY_ASSIGN(const std::int64_t value, parse_integer(text, lowest, highest));
  target = static_cast<T>(value);
  return {};
}
Status set_real(float& target, Text text, float lowest, float highest) {
  EBB_TRY_ASSIGN(target, parse_real(text, lowest, highest));
  return {};
}
Status set_switch(bool& target, Text text) {
  EBB_TRY_ASSIGN(target, parse_switch(text));
  return {};
}
template <typename T>
Status set_text(T& target, Text text) {
  target = std::string(text);
  return {};
}
template <typename T>
Status set_choice(T& target, Text text, std::initializer_list<std::pair<Text, T>> choices) {
  std::string allowed;
  for (const auto& [name, value] : choices) {
    if (text == name) {
      target = value;
      return {};
    }
    allowed += (allowed.empty() ? "" : ", ") + std::string(name);
  }
  return fail(ErrorCode::InvalidArgument, "use one of: " + allowed);
}
Status set_word(std::string& target, Text text, std::initializer_list<Text> words) {
  std::string allowed;
  for (const Text word : words) {
    if (text == word) return set_text(target, text);
    allowed += (allowed.empty() ? "" : ", ") + std::string(word);
  }
  return fail(ErrorCode::InvalidArgument, "use one of: " + allowed);
}
Status set_token_view(Options& options, Text text, TokenView view) {
  EBB_TRY_ASSIGN(const bool on, parse_switch(text));
  if (on) options.token_view = view;
  return {};
}
Status set_seed(Options& options, Text text) {
  if (text == "-1") {
    options.generate.sampling.seed.reset();
    return {};
  }
  EBB_TRY_ASSIGN(const std::int64_t seed, parse_integer(text, 0, std::numeric_limits<std::int64_t>::max()));
  options.generate.sampling.seed = static_cast<std::uint64_t>(seed);
  return {};
}
Status set_devices(Options& options, Text text) {
  return set_text(options.engine.devices, text == "none" ? "cpu" : text);
}
Status set_fake_page(Options& options, Text text) {
  EBB_TRY_ASSIGN(options.engine.fake_page_bytes, parse_bytes(text));
  return {};
}
Status add_stop(Options& options, Text text) {
  if (text.empty()) return fail(ErrorCode::InvalidArgument, "use at least one character");
  options.generate.stop.emplace_back(text);
  return {};
}

const std::vector<Setting>& table() {
  using O = Options;
  static const std::vector<Setting> rows{
      {"model",
       {"-m"},
       "FILE",
       Group::Model,
       "GGUF file, safetensors file or folder, or a name in the cache",
       kOpensModel,
       true,
       false,
       [](O& o, Text t) { return set_text(o.model, t); }},
      {"config",
       {},
       "FILE",
       Group::Model,
       "settings file instead of ~/.config/ebb/config.yaml",
       kEvery,
       false,
       false,
       [](O& o, Text t) { return set_text(o.config_file, t); }},
      {"ctx-size",
       {"-c", "--contextsize"},
       "N",
       Group::Model,
       "context in tokens; 0 = the model's own",
       kAnswers,
       true,
       false,
       [](O& o, Text t) { return set_integer(o.engine.context_tokens, t, 0, kMaxTokens); }},
      {"ctx-size",
       {"-c", "--contextsize"},
       "N",
       Group::Model,
       "tokens in a window (512)",
       bit(Command::Perplexity),
       false,
       false,
       [](O& o, Text t) { return set_integer(o.window_tokens, t, 4, kMaxTokens); }},
      {"threads",
       {"-t"},
       "N",
       Group::Model,
       "threads; without it, the physical cores",
       kComputes | bit(Command::Doctor),
       true,
       false,
       [](O& o, Text t) { return set_integer(o.engine.threads, t, 1, kMaxThreads); }},
      {"batch-size",
       {"-b"},
       "N",
       Group::Model,
       "most prompt tokens in one step (2048); the smaller of -b and -ub counts",
       kComputes,
       true,
       false,
       [](O& o, Text t) { return set_integer(o.batch_tokens, t, 1, kMaxTokens); }},
      {"ubatch-size",
       {"-ub"},
       "N",
       Group::Model,
       "prompt tokens in one step (512)",
       kComputes,
       true,
       false,
       [](O& o, Text t) { return set_integer(o.engine.chunk_tokens, t, 1, kMaxTokens); }},
      {"device",
       {"-dev"},
       "LIST",
       Group::Model,
       "cpu (or none), or pretended devices: fake:16GiB,fake:8GiB",
       kEvery,
       true,
       false,
       set_devices},
      {"fake-page",
       {},
       "SIZE",
       Group::Model,
       "page size of pretended devices, such as 64KiB",
       kEvery,
       true,
       false,
       set_fake_page},
      {"cache-type-k",
       {"-ctk"},
       "TYPE",
       Group::Model,
       "type of the keys kept: f16, bf16, f32",
       kComputes,
       true,
       false,
       [](O& o, Text t) {
         return set_word(o.key_type, t, {"f16", "bf16", "f32"});
       }},
      {"cache-type-v",
       {"-ctv"},
       "TYPE",
       Group::Model,
       "type of the values kept; must equal -ctk",
       kComputes,
       true,
       false,
       [](O& o, Text t) {
         return set_word(o.value_type, t, {"f16", "bf16", "f32"});
       }},
      {"exact",
       {},
       "",
       Group::Model,
       "float32 arithmetic throughout: slower, closest to the reference",
       kComputes,
       true,
       false,
       [](O& o, Text t) { return set_switch(o.engine.exact, t); }},
      {"chat-template",
       {},
       "NAME",
       Group::Model,
       "gemma (turns) or plain (questions and answers); without it, by the file",
       kAnswers,
       true,
       false,
       [](O& o, Text t) {
         return set_word(o.engine.chat_template, t, {"gemma", "plain"});
       }},

      {"prompt",
       {"-p"},
       "TEXT",
       Group::Prompt,
       "the prompt; a pipe's text is added after a blank line",
       bit(Command::Run),
       false,
       false,
       [](O& o, Text t) { return set_text(o.prompt, t); }},
      {"file",
       {"-f"},
       "FILE",
       Group::Prompt,
       "read the text from a file; - is standard input",
       bit(Command::Run) | bit(Command::Tokenize) | bit(Command::Perplexity),
       false,
       false,
       [](O& o, Text t) { return set_text(o.prompt_file, t); }},
      {"system",
       {"-sys", "--system-prompt"},
       "TEXT",
       Group::Prompt,
       "instructions that stand before the conversation",
       kAnswers,
       true,
       false,
       [](O& o, Text t) { return set_text(o.system, t); }},
      {"raw",
       {},
       "",
       Group::Prompt,
       "continue the text as it is, without a template; spellings such as <end_of_turn> are control tokens",
       bit(Command::Run),
       false,
       false,
       [](O& o, Text t) { return set_switch(o.raw, t); }},

      {"temp",
       {"--temperature"},
       "X",
       Group::Sampling,
       "randomness (1.0); 0 = always the likeliest token",
       kAnswers,
       true,
       false,
       [](O& o, Text t) { return set_real(o.generate.sampling.temperature, t, 0, kMaxPenalty); }},
      {"top-k",
       {},
       "N",
       Group::Sampling,
       "only the N likeliest tokens (64); 0 = all",
       kAnswers,
       true,
       false,
       [](O& o, Text t) { return set_integer(o.generate.sampling.top_k, t, 0, std::numeric_limits<int>::max()); }},
      {"top-p",
       {},
       "X",
       Group::Sampling,
       "the likeliest tokens that together reach X (0.95); 1 = all",
       kAnswers,
       true,
       false,
       [](O& o, Text t) { return set_real(o.generate.sampling.top_p, t, 0, 1); }},
      {"min-p",
       {},
       "X",
       Group::Sampling,
       "tokens at least X times as likely as the likeliest (0)",
       kAnswers,
       true,
       false,
       [](O& o, Text t) { return set_real(o.generate.sampling.min_p, t, 0, 1); }},
      {"repeat-penalty",
       {},
       "X",
       Group::Sampling,
       "make tokens seen lately less likely (1.0 = off)",
       kAnswers,
       true,
       false,
       [](O& o, Text t) { return set_real(o.generate.sampling.repeat_penalty, t, 0.001F, kMaxPenalty); }},
      {"repeat-last-n",
       {},
       "N",
       Group::Sampling,
       "tokens the penalties look back at (64); -1 = all",
       kAnswers,
       true,
       false,
       [](O& o, Text t) { return set_integer(o.generate.sampling.repeat_last_n, t, -1, kMaxTokens); }},
      {"presence-penalty",
       {},
       "X",
       Group::Sampling,
       "taken off a token seen at all (0)",
       kAnswers,
       true,
       false,
       [](O& o, Text t) { return set_real(o.generate.sampling.presence_penalty, t, -kMaxPenalty, kMaxPenalty); }},
      {"frequency-penalty",
       {},
       "X",
       Group::Sampling,
       "taken off for each time a token was seen (0)",
       kAnswers,
       true,
       false,
       [](O& o, Text t) { return set_real(o.generate.sampling.frequency_penalty, t, -kMaxPenalty, kMaxPenalty); }},
      {"seed",
       {"-s"},
       "N",
       Group::Sampling,
       "same seed, same text; without it (or -1) a fresh one, which is reported",
       kAnswers,
       true,
       false,
       set_seed},

      {"predict",
       {"-n", "--n-predict"},
       "N",
       Group::Answer,
       "most tokens of an answer; -1 = until the end",
       kAnswers,
       true,
       false,
       [](O& o, Text t) { return set_integer(o.generate.max_tokens, t, -1, kMaxTokens); }},
      {"reverse-prompt",
       {"-r"},
       "TEXT",
       Group::Answer,
       "end the answer before this text; may be given more than once",
       kAnswers,
       true,
       true,
       add_stop},
      {"log-probs",
       {"--logprobs"},
       "N",
       Group::Answer,
       "report each token's log-probability and the N best alternatives",
       bit(Command::Run),
       false,
       false,
       [](O& o, Text t) { return set_integer(o.generate.log_probs, t, 0, 1000); }},

      {"prompt",
       {"-p"},
       "LIST",
       Group::Answer,
       "prompt sizes to time, such as 512,2048 (512)",
       bit(Command::BenchSpeed),
       false,
       false,
       [](O& o, Text t) -> Status {
         EBB_TRY_ASSIGN(o.prompt_sizes, parse_size_list(t, 0, kMaxTokens));
         return {};
       }},
      {"predict",
       {"-n", "--n-predict"},
       "LIST",
       Group::Answer,
       "answer sizes to time (128)",
       bit(Command::BenchSpeed),
       false,
       false,
       [](O& o, Text t) -> Status {
         EBB_TRY_ASSIGN(o.answer_sizes, parse_size_list(t, 0, kMaxTokens));
         return {};
       }},
      {"repetitions",
       {"-r"},
       "N",
       Group::Answer,
       "runs of each size, after one to warm up (5)",
       bit(Command::BenchSpeed),
       false,
       false,
       [](O& o, Text t) { return set_integer(o.repetitions, t, 1, 1000); }},

      {"output",
       {"-o"},
       "FORMAT",
       Group::Output,
       "md, csv or json (md)",
       bit(Command::BenchSpeed),
       false,
       false,
       [](O& o, Text t) {
         return set_choice<TableFormat>(
             o.format, t, {{"md", TableFormat::Markdown}, {"csv", TableFormat::Csv}, {"json", TableFormat::Json}});
       }},
      {"json",
       {},
       "",
       Group::Output,
       "print one JSON object instead of text",
       bit(Command::Run) | bit(Command::Perplexity),
       false,
       false,
       [](O& o, Text t) { return set_switch(o.json, t); }},
      {"ids",
       {},
       "",
       Group::Output,
       "token ids on one line (the default)",
       bit(Command::Tokenize),
       false,
       false,
       [](O& o, Text t) { return set_token_view(o, t, TokenView::Ids); }},
      {"pieces",
       {},
       "",
       Group::Output,
       "a line for each token: id and text",
       bit(Command::Tokenize),
       false,
       false,
       [](O& o, Text t) { return set_token_view(o, t, TokenView::Pieces); }},
      {"json",
       {},
       "",
       Group::Output,
       "a JSON array of {id, bytes, text}",
       bit(Command::Tokenize),
       false,
       false,
       [](O& o, Text t) { return set_token_view(o, t, TokenView::Json); }},
      {"decode",
       {},
       "",
       Group::Output,
       "the other way: ids (text or JSON) to their text",
       bit(Command::Tokenize),
       false,
       false,
       [](O& o, Text t) { return set_switch(o.decode, t); }},
      {"parse-special",
       {},
       "",
       Group::Output,
       "spellings such as <end_of_turn> are control tokens",
       bit(Command::Tokenize),
       false,
       false,
       [](O& o, Text t) { return set_switch(o.parse_special, t); }},
      {"bos",
       {},
       "",
       Group::Output,
       "put <bos> in front, as a prompt has it",
       bit(Command::Tokenize),
       false,
       false,
       [](O& o, Text t) { return set_switch(o.add_bos, t); }},
      {"verbosity",
       {"-lv"},
       "N",
       Group::Output,
       "on stderr: 0 errors only, 1 progress and timings, 2 the model too (1)",
       kEvery,
       true,
       false,
       [](O& o, Text t) { return set_integer(o.verbosity, t, 0, 2); }},
      {"help",
       {"-h"},
       "",
       Group::Output,
       "this text",
       kEvery,
       false,
       false,
       [](O& o, Text t) { return set_switch(o.help, t); }},
  };
  return rows;
}

std::string transformed(std::string_view name, char (*letter)(char)) {
  std::string result(name);
  std::transform(result.begin(), result.end(), result.begin(), letter);
  return result;
}

}  // namespace

std::span<const Setting> settings() { return table(); }

bool belongs_to(const Setting& setting, Command command) { return (setting.commands & bit(command)) != 0; }

const Setting* find_setting(Command command, std::string_view spelling) {
  for (const Setting& setting : table()) {
    if (!belongs_to(setting, command)) continue;
    const bool by_name = spelling.starts_with("--") && spelling.substr(2) == setting.name;
    if (by_name || std::ranges::find(setting.aliases, spelling) != setting.aliases.end()) return &setting;
  }
  return nullptr;
}

std::vector<std::string> spellings(Command command) {
  std::vector<std::string> all;
  for (const Setting& setting : table()) {
    if (!belongs_to(setting, command)) continue;
    all.push_back("--" + std::string(setting.name));
    all.insert(all.end(), setting.aliases.begin(), setting.aliases.end());
  }
  return all;
}

std::string environment_name(const Setting& setting) {
  return "EBB_" + transformed(setting.name, [](char c) {
           return c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
         });
}

std::string config_key(const Setting& setting) {
  return transformed(setting.name, [](char c) { return c == '-' ? '_' : c; });
}

}  // namespace ebb::cli
