#include "engine/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/processors.h"
#include "device/host/host_device.h"
#include "engine/internal/device_budget.h"
#include "engine/internal/device_list.h"
#include "engine/internal/kv_types.h"
#include "engine/internal/plan_inputs.h"
#include "memory/page_pool.h"

namespace ebb::engine {

Result<Plan> plan_model(const EngineOptions& options) {
  EBB_TRY_ASSIGN(const kernels::KvTypes kv_types, choose_kv_types(options));
  EBB_TRY_ASSIGN(const auto devices, open_device_list(options.devices, options.fake_page_bytes));
  EBB_TRY_ASSIGN(const auto budgets, device_budgets(options.memory.memory_limit, devices));
  std::vector<PlanTarget> targets;
  device::Device* host = nullptr;
  for (std::size_t device_idx = 0; device_idx < devices.size(); ++device_idx) {
    targets.push_back({devices[device_idx].get(), budgets[device_idx]});
    if (devices[device_idx]->kind() == device::Kind::Host) host = devices[device_idx].get();
  }
  std::unique_ptr<device::Device> own_host;
  if (host == nullptr) {
    EBB_TRY_ASSIGN(own_host, device::HostDevice::open());
    host = own_host.get();
  }
  memory::Ledger ledger;
  memory::PagePool pool(*host, ledger);
  EBB_TRY_ASSIGN(const auto store, weights::WeightStore::open(options.model, pool));
  EBB_TRY_ASSIGN(const model::Config config, model::read_config(*store));

  model::ModelOptions model_options;
  model_options.arithmetic = options.exact ? model::Arithmetic::Exact : model::Arithmetic::Quantized;
  model_options.threads = options.threads != 0 ? options.threads : static_cast<int>(usable_cores());
  model_options.chunk_tokens = options.chunk_tokens;
  model::KvOptions kv;
  kv.global = kv.local = kv_types;
  EBB_TRY_ASSIGN(PlanResult result, plan_on(options, targets, *host, {*store, config, model_options, kv}));
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
    message += fmt::format("{}{}", idx == 0 ? ". What helps: " : "; or ", plan.remedies[idx]);
  }
  return {ErrorCode::OutOfMemory, std::move(message), std::move(facts)};
}

}  // namespace ebb::engine
