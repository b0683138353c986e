// Rewrites the flags of a command line to one spelling that CLI11 reads: "-ctk f16" and "--cache-type-k=f16" both
// become
// "--cache-type-k" "f16". A value is passed on untouched, whatever it looks like. Knows flags from settings.h only.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/options.h"

namespace ebb::cli {

/// `words` are what follows the command's name. Unknown flags stay, with two dashes, for the parser to report;
/// everything after "--" stays as it is.
[[nodiscard]] std::vector<std::string> normalize_flags(std::span<const std::string> words, Command command);

}  // namespace ebb::cli
