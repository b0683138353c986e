#include "cli/open_model.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/model_path.h"
#include "cli/terminal.h"

namespace ebb::cli {

Result<std::unique_ptr<engine::Engine>> open_model(const Options& options) {
  engine::EngineOptions wanted = options.engine;
  EBB_TRY_ASSIGN(wanted.model, find_model(options.model, process_environment()));
  EBB_TRY_ASSIGN(std::unique_ptr<engine::Engine> opened, engine::Engine::open(wanted));
  if (options.verbosity >= 2) {
    const engine::ModelInfo& info = opened->info();
    note(fmt::format("{}: {}", wanted.model.string(), model_line(info)));
    note(fmt::format("{} parameters, {} file, {} layers, context {} of {}, KV {} ({} a token), {}, {} threads",
                     info.parameters, format_bytes(info.file_bytes), info.layers, info.context, info.trained_context,
                     info.kv_type, format_bytes(info.kv_bytes_per_token), info.arithmetic, info.threads));
  }
  return opened;
}

std::string model_line(const engine::ModelInfo& info) {
  return fmt::format("{}, {}, {}", info.name, info.size, info.types);
}

bool go_on() { return !interrupted(); }

}  // namespace ebb::cli
