#include "engine/status_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace ebb::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 9> kDeviceKinds{"weights", "vision",    "kv_global", "kv_local", "prefix",
                                                       "scratch", "workspace", "staging",   "graphs"};
constexpr std::array<std::string_view, 4> kHostKinds{"mapped_file", "parked", "cache", "other"};
constexpr std::array<std::string_view, 4> kProgramKinds{"heap", "heap_free", "stacks", "data"};

std::size_t bytes_of(const KindBytes& kinds, std::string_view name) {
  const auto found = std::ranges::find(kinds, name, &KindBytes::value_type::first);
  return found == kinds.end() ? 0 : found->second;
}

// `always` in their order, zero or not, then what else holds bytes: a CPU's one pool has kinds of both sides.
Json kinds_json(const KindBytes& kinds, std::span<const std::string_view> always) {
  Json object = Json::object();
  for (const std::string_view name : always) object[std::string(name)] = bytes_of(kinds, name);
  for (const auto& [name, bytes] : kinds) {
    if (bytes > 0) object[name] = bytes;
  }
  return object;
}

Json device_json(const DeviceStatus& device) {
  return {{"index", device.index},
          {"name", device.name},
          {"uuid", device.uuid.empty() ? Json(nullptr) : Json(device.uuid)},
          {"backend", device.backend},
          {"total_bytes", device.total_bytes},
          {"limit_bytes", device.limit_bytes},
          {"free_bytes", device.free_bytes},
          {"used_by_us_bytes", device.used_by_us_bytes},
          {"others_bytes", device.others_bytes},
          {"context_bytes", device.context_bytes},
          {"held_bytes", device.held_bytes},
          {"mapped_bytes", device.mapped_bytes},
          {"pool_bytes", device.pool_bytes},
          {"retired_bytes", device.retired_bytes},
          {"untracked_bytes", device.untracked_bytes},
          {"planned_bytes", device.planned_bytes},
          {"kinds", kinds_json(device.kinds, kDeviceKinds)},
          {"fragmentation", {{"internal", device.internal_fragmentation}, {"pool", device.pool_fragmentation}}}};
}

Json conversation_json(const ConversationStatus& conversation) {
  return {{"id", conversation.id},
          {"title", conversation.title},
          {"state", state_name(conversation.state)},
          {"tokens", conversation.tokens},
          {"context", conversation.context},
          {"device_bytes", conversation.device_bytes},
          {"host_bytes", conversation.host_bytes},
          {"kinds", kinds_json(conversation.kinds, {})}};
}

Json receipt_json(const Receipt& receipt) {
  Json devices = Json::array();
  for (const Receipt::Device& device : receipt.devices) {
    devices.push_back({{"index", device.index},
                       {"freed_bytes", device.freed_bytes},
                       {"kinds", kinds_json(device.kinds, {})},
                       {"free_before_bytes", device.free_before_bytes},
                       {"free_after_bytes", device.free_after_bytes}});
  }
  Json kept = Json::array();
  for (const Receipt::Kept& entry : receipt.kept) {
    kept.push_back({{"kind", entry.kind}, {"bytes", entry.bytes}, {"why", entry.why}});
  }
  return {{"action", action_name(receipt.action)},
          {"level", receipt.action == Action::Reclaim ? Json(receipt.level) : Json(nullptr)},
          {"reason", reason_name(receipt.reason)},
          {"conversation", receipt.conversation != 0 ? Json(receipt.conversation) : Json(nullptr)},
          {"freed_bytes", receipt.freed_bytes},
          {"devices", std::move(devices)},
          {"host_freed_bytes", receipt.host_freed_bytes},
          {"kept", std::move(kept)},
          {"us", receipt.us},
          {"confirmed", receipt.confirmed}};
}

std::string text_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);  // names come from drivers and files
}

}  // namespace

std::string_view action_name(Action action) {
  switch (action) {
    case Action::Reset:
      return "reset";
    case Action::Delete:
      return "delete";
    case Action::Park:
      return "park";
    case Action::Unload:
      return "unload";
    case Action::Load:
      return "load";
    case Action::Reclaim:
      return "reclaim";
  }
  return "";
}

std::string_view reason_name(Reason reason) {
  switch (reason) {
    case Reason::AfterGeneration:
      return "after_generation";
    case Reason::Turns:
      return "turns";
    case Reason::User:
      return "user";
    case Reason::Threshold:
      return "threshold";
    case Reason::Pressure:
      return "pressure";
    case Reason::Yield:
      return "yield";
    case Reason::Idle:
      return "idle";
    case Reason::Delete:
      return "delete";
  }
  return "";
}

std::string_view state_name(ConversationState state) {
  switch (state) {
    case ConversationState::Active:
      return "active";
    case ConversationState::Idle:
      return "idle";
    case ConversationState::Parked:
      return "parked";
  }
  return "";
}

std::string to_json(const MemoryStatus& status) {
  Json devices = Json::array();
  for (const DeviceStatus& device : status.devices) devices.push_back(device_json(device));
  Json conversations = Json::array();
  for (const ConversationStatus& conversation : status.conversations) {
    conversations.push_back(conversation_json(conversation));
  }
  const HostStatus& host = status.host;
  return text_of({{"time_ms", status.time_ms},
                  {"devices", std::move(devices)},
                  {"host",
                   {{"limit_bytes", host.limit_bytes ? Json(*host.limit_bytes) : Json(nullptr)},
                    {"used_bytes", host.used_bytes},
                    {"anon_bytes", host.anon_bytes},
                    {"kinds", kinds_json(host.kinds, kHostKinds)},
                    {"touched_bytes", host.touched_bytes},
                    {"program", kinds_json(host.program, kProgramKinds)}}},
                  {"conversations", std::move(conversations)},
                  {"last", status.last ? receipt_json(*status.last) : Json(nullptr)}});
}

std::string to_json(const Receipt& receipt) { return text_of(receipt_json(receipt)); }

std::string to_json(const Plan& plan) {
  Json devices = Json::array();
  for (const PlanDevice& device : plan.devices) {
    devices.push_back({{"index", device.index},
                       {"total_bytes", device.total_bytes},
                       {"free_bytes", device.free_bytes},
                       {"limit_bytes", device.limit_bytes},
                       {"planned_bytes", device.planned_bytes},
                       {"kinds", kinds_json(device.kinds, kDeviceKinds)}});
  }
  Json units = Json::array();
  for (const PlanUnit& unit : plan.units) {
    units.push_back({{"name", unit.name},
                     {"weight_bytes", unit.weight_bytes},
                     {"kv_bytes", unit.kv_bytes},
                     {"device", unit.device}});
  }
  return text_of({{"fits", plan.fits},
                  {"context", plan.context},
                  {"devices", std::move(devices)},
                  {"host", {{"planned_bytes", plan.host_planned_bytes}}},
                  {"units", std::move(units)},
                  {"remedies", plan.remedies}});
}

}  // namespace ebb::engine
