// Turns what -m says into a path: a file or folder, or a name in the cache folder.
// Called by every command that opens a model, and by doctor.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"
#include "cli/arguments.h"

namespace ebb::cli {

/// ${EBB_CACHE:-${XDG_CACHE_HOME:-~/.cache}/ebb}
[[nodiscard]] std::filesystem::path cache_folder(const Environment& environment);
/// ${XDG_STATE_HOME:-~/.local/state}/ebb, where the chat keeps its history.
[[nodiscard]] std::filesystem::path state_folder(const Environment& environment);
/// A leading "~/" stands for the home folder; config.yaml has no shell to do that.
[[nodiscard]] std::filesystem::path expand_home(const std::string& text, const Environment& environment);

/// Errors   InvalidArgument when `text` is empty; NotFound with the places looked at and the names there.
[[nodiscard]] Result<std::filesystem::path> find_model(const std::string& text, const Environment& environment);

}  // namespace ebb::cli
