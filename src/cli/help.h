// The texts of -h: commands with examples, flags by task from the table of settings.h, where settings come from.
#pragma once

#include <string>

#include "cli/options.h"

namespace ebb::cli {

[[nodiscard]] std::string general_help();
[[nodiscard]] std::string command_help(Command command);

}  // namespace ebb::cli
