#include "engine/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <string>

#include "base/bytes.h"
#include "base/processors.h"
#include "engine/internal/device_pools.h"
#include "engine/internal/kv_choice.h"
#include "engine/internal/plan_inputs.h"

namespace ebb::engine {

Result<Plan> plan_model(const EngineOptions& options) {
  EBB_TRY_ASSIGN(const model::KvOptions kv, choose_kv(options));
  EBB_TRY_ASSIGN(const auto pools, DevicePools::open(options));
  EBB_TRY_ASSIGN(const auto store, weights::WeightStore::open(options.model, pools->host()));
  EBB_TRY_ASSIGN(const model::Config config, model::read_config(*store));
  EBB_TRY(check_kv(kv, config.head_dim));

  model::ModelOptions model_options;
  model_options.arithmetic = options.exact ? model::Arithmetic::Exact : model::Arithmetic::Quantized;
  model_options.threads = options.threads != 0 ? options.threads : static_cast<int>(usable_cores());
  model_options.chunk_tokens = options.chunk_tokens;
  EBB_TRY_ASSIGN(PlanResult result, plan_on(options, *pools, {*store, config, model_options, kv}));
  return std::move(result.plan);
}

Error plan_error(const Plan& plan) {
  MemoryFacts facts;
  facts.tag = "plan";
  std::string where;
  for (const PlanDevice& device : plan.devices) {
    facts.wanted_bytes += device.planned_bytes;
    facts.free_bytes += device.limit_bytes;
    where += fmt::format("{}{} on device {} ({}), where {} may be used ({} free)", where.empty() ? "" : "; ",
                         format_bytes(device.planned_bytes), device.index, device.name, format_bytes(device.limit_bytes),
                         format_bytes(device.free_bytes));
  }
  std::string message = fmt::format("the model does not fit with a context of {}: it needs {}", plan.context, where);
  if (plan.host_planned_bytes > 0) message += fmt::format("; and {} of host memory", format_bytes(plan.host_planned_bytes));
  constexpr std::size_t kMostRemedies = 2;
  for (std::size_t idx = 0; idx < std::min(kMostRemedies, plan.remedies.size()); ++idx) {
    facts.remedies.push_back(plan.remedies[idx]);
    message += fmt::format("{}{}", idx == 0 ? ". What helps: " : "; or ", plan.remedies[idx]);
  }
  return {ErrorCode::OutOfMemory, std::move(message), std::move(facts)};
}

}  // namespace ebb::engine
