#include "cli/arguments.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "cli/config_file.h"
#include "cli/normalize.h"
#include "cli/settings.h"
#include "cli/suggest.h"

namespace ebb::cli {

namespace {

using Words = std::vector<std::string>;
using GivenValues = std::map<const Setting*, Words>;  // what the command line says, in order

struct NamedCommand {
  const char* name;
  Command command;
};
constexpr std::array<NamedCommand, 10> kCommands{{{"run", Command::Run},
                                                 {"chat", Command::Chat},
                                                 {"tokenize", Command::Tokenize},
                                                 {"perplexity", Command::Perplexity},
                                                 {"plan", Command::Plan},
                                                 {"memory", Command::Memory},
                                                 {"bench", Command::BenchSpeed},
                                                 {"soak", Command::Soak},
                                                 {"doctor", Command::Doctor},
                                                 {"--list-devices", Command::ListDevices}}};

tl::unexpected<Error> wrong_use(std::string message) { return fail(ErrorCode::InvalidArgument, std::move(message)); }

// What `ebb bench` shall measure; with -h alone its help is that of `bench speed`.
Result<Command> take_bench(std::span<const std::string>& words) {
  const std::string kind = words.empty() ? "" : words.front();
  if (kind == "-h" || kind == "--help") return Command::BenchSpeed;
  if (kind != "speed" && kind != "memory") {
    return wrong_use("ebb bench needs to know what to measure: ebb bench speed, or ebb bench memory");
  }
  words = words.subspan(1);
  return kind == "speed" ? Command::BenchSpeed : Command::BenchMemory;
}

// Takes the command's name off the front of `words`.
Result<Command> take_command(std::span<const std::string>& words) {
  const std::string& name = words.front();
  const auto* named =
      std::ranges::find_if(kCommands, [&](const NamedCommand& command) { return name == command.name; });
  if (named == kCommands.end()) {
    if (name.starts_with('-')) {
      return wrong_use(fmt::format(
          "'{}' stands where a command belongs; for instance: ebb run -p \"Hello\" (ebb -h lists the commands)", name));
    }
    Words names;
    for (const NamedCommand& command : kCommands) names.emplace_back(command.name);
    return wrong_use(
        fmt::format("unknown command '{}'{} (ebb -h lists the commands)", name, did_you_mean(name, names)));
  }
  words = words.subspan(1);
  return named->command == Command::BenchSpeed ? take_bench(words) : named->command;
}

// The flag as the user typed it, for messages about its normalised form.
std::string as_typed(std::span<const std::string> words, const std::string& normalised) {
  const auto stripped = [](std::string_view word) {
    return word.substr(std::min(word.find_first_not_of('-'), word.size()));
  };
  const auto typed = std::ranges::find_if(
      words, [&](const std::string& word) { return word.starts_with('-') && stripped(word) == stripped(normalised); });
  return typed == words.end() ? normalised : typed->substr(0, typed->find('='));
}

// What belongs to no flag: the text of tokenize, or a mistake. After "--" nothing is a flag.
Status take_rest(const Words& rest, std::span<const std::string> words, Command command, Options& options) {
  bool flags_over = false;
  for (const std::string& word : rest) {
    if (word == "--" && !flags_over) {
      flags_over = true;
    } else if (word.starts_with('-') && word.size() > 1 && !flags_over) {
      const std::string typed = as_typed(words, word);
      return wrong_use(fmt::format("unknown flag {}{}", typed, did_you_mean(typed, spellings(command))));
    } else if (command == Command::Tokenize) {
      options.words.push_back(word);
    } else {
      return wrong_use(
          fmt::format("unexpected '{}'{}", word, command == Command::Run ? "; give the prompt with -p" : ""));
    }
  }
  return {};
}

Result<GivenValues> read_command_line(std::span<const std::string> words, Command command, Options& options) {
  CLI::App app;
  app.set_help_flag();  // help.cpp writes it
  app.allow_extras();
  std::map<const Setting*, CLI::Option*> handles;
  const auto keep_texts = [](const CLI::results_t&) { return true; };
  for (const Setting& setting : settings()) {
    if (!belongs_to(setting, command)) continue;
    const std::string name = "--" + std::string(setting.name);
    CLI::Option* handle = setting.value.empty() ? app.add_flag(name) : app.add_option(name, keep_texts);
    if (!setting.value.empty()) {
      // One value for each use, as many uses as wanted, and no splitting of "[a,b]".
      handle->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
    }
    handles[&setting] = handle;
  }
  try {
    Words reversed = normalize_flags(words, command);
    std::ranges::reverse(reversed);
    app.parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch&) {
    return wrong_use(fmt::format("{} needs a value", words.back()));  // only the last flag of a line can lack one
  } catch (const CLI::ParseError& error) {
    return wrong_use(error.what());
  }
  EBB_TRY(take_rest(app.remaining(), words, command, options));
  GivenValues given;
  for (const auto& [setting, handle] : handles) {
    if (handle->count() > 0) given[setting] = handle->results();
  }
  return given;
}

Status apply_all(const Setting& setting, const Words& texts, const std::string& source, Options& options) {
  for (const std::string& text : texts) {
    if (Status status = setting.apply(options, text); !status) {
      return wrong_use(fmt::format("{} '{}': {}", source, text, status.error().message));
    }
  }
  return {};
}

std::string first_or(const GivenValues& given, std::string_view name, std::string otherwise) {
  for (const auto& [setting, texts] : given) {
    if (setting->name == name) return texts.back();
  }
  return otherwise;
}

Result<std::vector<ConfigEntry>> find_config(const GivenValues& given, const Environment& environment) {
  const std::string named = first_or(given, "config", environment("EBB_CONFIG").value_or(""));
  if (!named.empty()) return read_config(named);
  const std::filesystem::path usual = usual_config_file(environment);
  std::error_code ignored;
  if (usual.empty() || !std::filesystem::exists(usual, ignored)) return std::vector<ConfigEntry>{};
  return read_config(usual);
}

Status settle(const GivenValues& given, const Environment& environment, const std::vector<ConfigEntry>& config,
              Command command, Options& options) {
  for (const Setting& setting : settings()) {
    if (!belongs_to(setting, command)) continue;
    if (const auto typed = given.find(&setting); typed != given.end()) {
      EBB_TRY(apply_all(setting, typed->second, "--" + std::string(setting.name), options));
      continue;
    }
    if (!setting.lasting) continue;
    const std::string variable = environment_name(setting);
    if (const auto text = environment(variable); text && !text->empty()) {
      EBB_TRY(apply_all(setting, {*text}, variable, options));
      continue;
    }
    const auto entry = std::ranges::find(config, &setting, &ConfigEntry::setting);
    if (entry != config.end()) EBB_TRY(apply_all(setting, entry->values, config_key(setting), options));
  }
  return {};
}

Status refuse_two_limits(const GivenValues& given) {
  const auto said = [&](std::string_view name) {
    return std::ranges::any_of(given, [&](const auto& entry) { return entry.first->name == name; });
  };
  if (!said("memory-limit") || !said("gpu-memory-utilization")) return {};
  return wrong_use("--memory-limit and --gpu-memory-utilization say the same thing; give one of them");
}

// One type alone leaves the other as it is without flags.
void settle_kv_type(Options& options) {
  if (options.key_type.empty() && options.value_type.empty()) return;
  const std::string usual = options.engine.exact ? "f32" : "f16";
  const std::string& keys = options.key_type.empty() ? usual : options.key_type;
  const std::string& values = options.value_type.empty() ? usual : options.value_type;
  options.engine.kv_type = keys == values ? keys : keys + "/" + values;
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::filesystem::path usual_config_file(const Environment& environment) {
  const std::string base = environment("XDG_CONFIG_HOME").value_or("");
  if (!base.empty()) return std::filesystem::path(base) / "ebb" / "config.yaml";
  const std::string home = environment("HOME").value_or("");
  return home.empty() ? std::filesystem::path() : std::filesystem::path(home) / ".config" / "ebb" / "config.yaml";
}

Result<Invocation> parse_arguments(std::span<const std::string> words, const Environment& environment) {
  Invocation invocation;
  if (words.empty()) return wrong_use("ebb needs a command; for instance: ebb chat (ebb -h lists them)");
  if (words.front() == "-h" || words.front() == "--help" || words.front() == "help") {
    invocation.options.help = true;
    return invocation;
  }
  if (words.front() == "--version") {
    invocation.version = true;
    return invocation;
  }
  EBB_TRY_ASSIGN(const Command command, take_command(words));
  invocation.command = command;
  EBB_TRY_ASSIGN(const GivenValues given, read_command_line(words, command, invocation.options));
  for (const auto& [setting, texts] : given) {
    if (setting->name == "help") {
      invocation.options.help = true;
      return invocation;  // help is there whatever else is wrong
    }
  }
  EBB_TRY(refuse_two_limits(given));
  EBB_TRY_ASSIGN(const std::vector<ConfigEntry> config, find_config(given, environment));
  EBB_TRY(settle(given, environment, config, command, invocation.options));
  settle_kv_type(invocation.options);
  invocation.options.engine.chunk_tokens =
      std::min(invocation.options.engine.chunk_tokens, invocation.options.batch_tokens);
  return invocation;
}

}  // namespace ebb::cli
