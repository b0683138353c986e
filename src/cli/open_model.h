// Finds and opens the model that the options name, and describes it. Called by every command that needs an engine.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "cli/options.h"
#include "engine/engine.h"

namespace ebb::cli {

/// Errors   as find_model and Engine::open.
[[nodiscard]] Result<std::unique_ptr<engine::Engine>> open_model(const Options& options);

/// "gemma-3-270m, 270M, Q5_0 81, Q8_0 10": what a person calls the model.
[[nodiscard]] std::string model_line(const engine::ModelInfo& info);

/// A sink's answer to "go on?", and what Progress returns: false once Ctrl-C was pressed.
[[nodiscard]] bool go_on();

}  // namespace ebb::cli
