#include "engine/internal/plan_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "base/bytes.h"
#include "engine/internal/kv_choice.h"

namespace ebb::engine {
namespace {

Status read_gpu_layers(const std::string& text, PlacementRequest& request) {
  if (text == "auto") return {};
  if (text == "all") {
    request.all_on_devices = true;
    return {};
  }
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail(ErrorCode::InvalidArgument, fmt::format("\"{}\" layers on devices; give a number, auto or all", text));
  }
  request.device_layers = count;
  return {};
}

Status read_split(const EngineOptions& options, std::vector<PlacementDevice>& devices) {
  if (options.main_device) {
    if (*options.main_device >= devices.size()) {
      return fail(ErrorCode::InvalidArgument, fmt::format("device {} is named as the main one; there are {}, counted from 0",
                                                          *options.main_device, devices.size()));
    }
    for (std::size_t idx = 0; idx < devices.size(); ++idx) devices[idx].banned = idx != *options.main_device;
    return {};
  }
  const std::vector<double>& split = options.tensor_split;
  if (split.empty()) return {};
  const double sum = std::accumulate(split.begin(), split.end(), 0.0);
  if (split.size() > devices.size() || sum <= 0) {
    return fail(ErrorCode::InvalidArgument, fmt::format("{} shares for {} devices; give one for each, at least one above 0",
                                                        split.size(), devices.size()));
  }
  for (std::size_t idx = 0; idx < devices.size(); ++idx) {
    devices[idx].share = idx < split.size() ? split[idx] / sum : 0;
    devices[idx].banned = devices[idx].share <= 0;
  }
  return {};
}

Result<PlacementDevice> describe(device::Device& target, std::optional<std::size_t> budget_bytes, std::size_t spare_bytes) {
  EBB_TRY_ASSIGN(const device::MemInfo info, target.mem_info());
  PlacementDevice device;
  device.name = target.name();
  device.total_bytes = info.total_bytes;
  device.free_bytes = info.free_bytes;
  device.page_bytes = target.page_bytes();
  device.limit_bytes = usable_bytes(info, budget_bytes, spare_bytes, device.page_bytes);
  device.kind = target.kind();
  return device;
}

KvChoice describe_kv(const PlanModel& model, const model::KvOptions& kv, std::string flags) {
  KvChoice choice;
  choice.flags = std::move(flags);
  choice.kv = [&config = model.config, kv](std::span<const std::size_t> layers, std::size_t tokens, std::size_t page_bytes) {
    model::KvOptions sized = kv;
    sized.max_tokens = tokens;
    const model::KvFootprint bytes = model::KvCache::footprint(config, sized, layers, tokens, page_bytes);
    return KvBytes{bytes.global_bytes, bytes.local_bytes, bytes.record_bytes};
  };
  choice.scratch = [&model, kv](std::size_t rows, bool has_output, device::Kind kind) {
    return model::Model::scratch_footprint(model.config, model.options, kv.widest(), rows, 1, has_output, kind);
  };
  return choice;
}

void describe_units(const PlanModel& model, PlacementRequest& request) {
  const auto bytes_of = [&](weights::UnitId unit) {
    return UnitBytes{model.store.unit_bytes(unit, device::Kind::Fake), model.store.unit_bytes(unit, device::Kind::Host)};
  };
  for (std::size_t layer_idx = 0; layer_idx < model.config.layers; ++layer_idx) {
    request.layers.push_back({bytes_of(weights::layer_unit(layer_idx)), model.config.global[layer_idx]});
  }
  request.output = bytes_of(weights::kOutputUnit);
  request.embedding_bytes = model.store.part_bytes(weights::Part::Embedding);
}

/// The wanted types, then what is advised: each smaller than the one before.
void describe_kv_choices(const PlanModel& model, PlacementRequest& request) {
  request.kv_choices.push_back(describe_kv(model, model.kv, ""));
  if (model.options.arithmetic == model::Arithmetic::Exact) return;
  std::size_t least = model::KvCache::bytes_per_token(model.config, model.kv);
  for (const char* type : {"q8_0", "q4_0"}) {
    EngineOptions advised;
    advised.kv_type = type;
    const Result<model::KvOptions> kv = choose_kv(advised);
    if (!kv || !check_kv(*kv, model.config.head_dim)) continue;
    const std::size_t bytes = model::KvCache::bytes_per_token(model.config, *kv);
    if (bytes >= least) continue;
    least = bytes;
    request.kv_choices.push_back(describe_kv(model, *kv, fmt::format("-ctk {} -ctv {}", type, type)));
  }
}

}  // namespace

std::size_t usable_bytes(const device::MemInfo& info, std::optional<std::size_t> budget_bytes, std::size_t spare_bytes,
                         std::size_t page_bytes) {
  const std::size_t ours_to_be = info.free_bytes + info.ours_bytes;
  const std::size_t room = ours_to_be - std::min(ours_to_be, spare_bytes);
  return std::min(room, budget_bytes.value_or(room)) / page_bytes * page_bytes;
}

Result<PlanResult> plan_on(const EngineOptions& options, const DevicePools& pools, const PlanModel& model) {
  const std::size_t trained = model.config.max_context;
  if (options.context_tokens > trained) {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("a context of {} tokens was asked for; the model was trained for {} (use -c {} or less)",
                            options.context_tokens, trained, trained));
  }
  PlacementRequest request;
  PlanWish wish;
  for (std::size_t device_idx = 0; device_idx < pools.count(); ++device_idx) {
    const std::optional<std::size_t> budget = pools.budget(device_idx);
    EBB_TRY_ASSIGN(PlacementDevice device, describe(pools.device(device_idx), budget, options.fit_target_bytes));
    wish.limited.push_back(budget && device.limit_bytes == *budget);
    request.devices.push_back(std::move(device));
  }
  EBB_TRY(read_split(options, request.devices));
  EBB_TRY(read_gpu_layers(options.gpu_layers, request));
  device::Device& host = pools.host().device();
  EBB_TRY_ASSIGN(const device::MemInfo host_info, host.mem_info());
  request.host_page_bytes = host.page_bytes();
  request.host_limit_bytes = usable_bytes(host_info, options.memory.host_limit_bytes, 0, host.page_bytes());
  describe_units(model, request);
  request.staging = [&config = model.config](std::size_t rows, device::Kind first_home, device::Kind output_home) {
    return model::Model::staging_footprint(config, rows, 1, first_home, output_home);
  };
  describe_kv_choices(model, request);

  wish.tokens = options.context_tokens;
  wish.trained_tokens = trained;
  wish.parallel = options.parallel;
  wish.chunk_tokens = model.options.chunk_tokens;
  PlanResult result = make_plan(request, wish);
  result.plan.model = fmt::format("{}, {}", model.config.size_name(), model.store.matrix_types());
  result.plan.kv_type = kv_name(model.kv);
  result.plan.mapped_file_bytes = model.store.file_bytes();
  return result;
}

}  // namespace ebb::engine
