// `ebb plan`: whether a model fits and where its parts go, from headers alone.
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/model_path.h"
#include "cli/plan_report.h"
#include "cli/terminal.h"
#include "engine/planner.h"
#include "engine/status_json.h"

namespace ebb::cli {

Result<int> run_plan(const Options& options) {
  engine::EngineOptions wanted = options.engine;
  EBB_TRY_ASSIGN(wanted.model, find_model(options.model, process_environment()));
  EBB_TRY_ASSIGN(const engine::Plan plan, engine::plan_model(wanted));
  EBB_TRY(write_output(options.json ? engine::to_json(plan) + "\n" : plan_report(plan)));
  return kExitDone;
}

}  // namespace ebb::cli
