// config.yaml: the settings a user keeps. Keys are flags with _ for -, those about memory in the block
// memory_management; values are those of the flags.
// Refuses what it does not know, with file, line, key and what is allowed. Called by arguments.cpp.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/settings.h"

namespace ebb::cli {

struct ConfigEntry {
  const Setting* setting = nullptr;
  std::vector<std::string> values;  // one, or the items of a repeatable setting
  std::size_t line = 0;             // from 1
};

/// Errors   NotFound, Io; InvalidArgument for bad YAML, an unknown or repeated key, a value of the wrong type or range.
[[nodiscard]] Result<std::vector<ConfigEntry>> read_config(const std::filesystem::path& path);

}  // namespace ebb::cli
