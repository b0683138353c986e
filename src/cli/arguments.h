// The command line, then EBB_<FLAG> variables, then config.yaml: the first that names a setting wins.
// Refuses unknown commands and flags with the nearest match. Called by program.cpp.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "cli/options.h"

namespace ebb::cli {

/// Value of an environment variable; nothing when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
[[nodiscard]] Environment process_environment();

struct Invocation {
  std::optional<Command> command;  // none: the general help, or the version
  bool version = false;
  Options options;
};

/// `words` without the program's name.
/// Errors   InvalidArgument (exit 2); NotFound or Io for a settings file named with --config.
[[nodiscard]] Result<Invocation> parse_arguments(std::span<const std::string> words, const Environment& environment);

/// The settings file that is read when --config names none: $XDG_CONFIG_HOME/ebb/config.yaml, else
/// ~/.config/ebb/config.yaml.
[[nodiscard]] std::filesystem::path usual_config_file(const Environment& environment);

}  // namespace ebb::cli
