// The one table of flags. Each row knows its spellings, its help, its commands, whether the environment (EBB_<NAME>)
// and config.yaml may set it too, and how its text becomes an option. Called by arguments.cpp, config_file.cpp,
// help.cpp and doctor.cpp; none of them keeps a list of its own.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/options.h"

namespace ebb::cli {

enum class Group : std::uint8_t { Model, Memory, Prompt, Sampling, Answer, Output };

/// Where config.yaml has a setting, when it is not a line `ctx_size: ...` of its own.
struct ConfigPlace {
  std::string_view section;  // "memory_management"; empty = the top
  std::string_view key;      // "idle_unload"; empty = the flag's name with _ for -
  bool list = false;         // may be a YAML list; its items arrive joined by commas, as the flag has them
};

struct Setting {
  std::string_view name;                  // "ctx-size": the flag without its dashes
  std::vector<std::string_view> aliases;  // as typed: "-c", "-ctk", "--contextsize"
  std::string_view value;                 // what help calls the value; empty for a switch
  Group group;
  std::string_view help;
  std::uint32_t commands;  // Command bits
  bool lasting;            // may also come from the environment and config.yaml
  bool repeatable;         // each use adds
  /// Errors   InvalidArgument: what is allowed; the caller puts the flag and the text in front.
  Status (*apply)(Options& options, std::string_view text);
  ConfigPlace place = {};
};

[[nodiscard]] std::span<const Setting> settings();
[[nodiscard]] bool belongs_to(const Setting& setting, Command command);

/// By any spelling with its dashes ("-c", "--ctx-size"), among the rows of one command; nullptr when unknown.
[[nodiscard]] const Setting* find_setting(Command command, std::string_view spelling);
/// Every spelling of a command's flags, the long one of each row first.
[[nodiscard]] std::vector<std::string> spellings(Command command);

/// "ctx-size" to "EBB_CTX_SIZE", and to "ctx_size", the key in its section.
[[nodiscard]] std::string environment_name(const Setting& setting);
[[nodiscard]] std::string config_key(const Setting& setting);

}  // namespace ebb::cli
