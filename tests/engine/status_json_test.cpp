// The field names that clients rely on (A32, A33, A35), as golden lists in the order of the document.
#include "engine/status_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ebb::engine {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::vector<std::string>;

Names names_of(const Json& object) {
  Names names;
  for (const auto& item : object.items()) names.push_back(item.key());
  return names;
}

Receipt some_receipt() {
  Receipt receipt;
  receipt.action = Action::Reclaim;
  receipt.level = 2;
  receipt.reason = Reason::AfterGeneration;
  receipt.freed_bytes = 12;
  receipt.devices = {{1, 12, {{"scratch", 12}}, 100, 112}};
  receipt.kept = {{"weights", 7, "in use"}};
  receipt.us = 99;
  receipt.confirmed = true;
  return receipt;
}

TEST(StatusJson, MemoryHasExactlyTheFieldsOfA32) {
  MemoryStatus status;
  status.time_ms = 5;
  DeviceStatus device;
  device.name = "bad \xff name";
  device.kinds = {{"scratch", 3}, {"parked", 0}};
  device.internal_fragmentation = 0.25;
  status.devices = {device};
  ConversationStatus chat;
  chat.id = 9;
  chat.kinds = {{"kv_global", 4}};
  status.conversations = {chat};
  const std::string text = to_json(status);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const Json json = Json::parse(text);

  EXPECT_EQ(names_of(json), (Names{"time_ms", "devices", "host", "conversations", "last"}));
  EXPECT_EQ(names_of(json["devices"][0]),
            (Names{"index", "name", "uuid", "backend", "total_bytes", "limit_bytes", "free_bytes", "used_by_us_bytes",
                   "others_bytes", "context_bytes", "held_bytes", "mapped_bytes", "pool_bytes", "retired_bytes",
                   "untracked_bytes", "planned_bytes", "kinds", "fragmentation"}));
  EXPECT_EQ(names_of(json["devices"][0]["kinds"]), (Names{"weights", "vision", "kv_global", "kv_local", "prefix",
                                                          "scratch", "workspace", "staging", "graphs"}));
  EXPECT_EQ(names_of(json["devices"][0]["fragmentation"]), (Names{"internal", "pool"}));
  // The last two are ours beyond A32 (M16).
  EXPECT_EQ(names_of(json["host"]), (Names{"limit_bytes", "used_bytes", "anon_bytes", "kinds", "touched_bytes", "program"}));
  EXPECT_EQ(names_of(json["host"]["program"]), (Names{"heap", "heap_free", "stacks", "data"}));
  EXPECT_EQ(names_of(json["host"]["kinds"]), (Names{"mapped_file", "parked", "cache", "other"}));
  EXPECT_EQ(names_of(json["conversations"][0]),
            (Names{"id", "title", "state", "tokens", "context", "device_bytes", "host_bytes", "kinds"}));
  EXPECT_EQ(json["devices"][0]["fragmentation"]["internal"], 0.25);
  EXPECT_EQ(json["devices"][0]["kinds"]["scratch"], 3);
  EXPECT_TRUE(json["devices"][0]["uuid"].is_null());
  EXPECT_TRUE(json["host"]["limit_bytes"].is_null());
  EXPECT_TRUE(json["last"].is_null());
  EXPECT_EQ(json["conversations"][0]["state"], "idle");
}

TEST(StatusJson, AKindThatIsNotADevicesIsNotLost) {  // M19: the CPU's one pool also holds parked chats
  MemoryStatus status;
  DeviceStatus device;
  device.kinds = {{"kv_global", 4}, {"parked", 8}};
  status.devices = {device};
  const Json kinds = Json::parse(to_json(status))["devices"][0]["kinds"];
  EXPECT_EQ(kinds["parked"], 8);
  EXPECT_EQ(kinds.size(), 10U);
}

TEST(StatusJson, ReceiptHasExactlyTheFieldsOfA33) {
  const Json json = Json::parse(to_json(some_receipt()));
  EXPECT_EQ(names_of(json), (Names{"action", "level", "reason", "conversation", "freed_bytes", "devices",
                                   "host_freed_bytes", "kept", "us", "confirmed"}));
  EXPECT_EQ(names_of(json["devices"][0]),
            (Names{"index", "freed_bytes", "kinds", "free_before_bytes", "free_after_bytes"}));
  EXPECT_EQ(names_of(json["kept"][0]), (Names{"kind", "bytes", "why"}));
  EXPECT_EQ(json["level"], 2);
  EXPECT_TRUE(json["conversation"].is_null());
  EXPECT_EQ(json["devices"][0]["kinds"], (Json{{"scratch", 12}}));

  MemoryStatus status;
  status.last = some_receipt();
  EXPECT_EQ(Json::parse(to_json(status))["last"], json);

  Receipt reset;
  reset.action = Action::Reset;
  reset.conversation = 4;
  EXPECT_TRUE(Json::parse(to_json(reset))["level"].is_null()) << "only reclaims have a level";
  EXPECT_EQ(Json::parse(to_json(reset))["conversation"], 4);
}

TEST(StatusJson, EveryWordOfAReceiptIsTheDocuments) {
  const std::vector<Action> actions{Action::Reset,  Action::Delete, Action::Park,
                                    Action::Unload, Action::Load,   Action::Reclaim};
  Names words;
  for (const Action action : actions) words.emplace_back(action_name(action));
  EXPECT_EQ(words, (Names{"reset", "delete", "park", "unload", "load", "reclaim"}));
  words.clear();
  for (const Reason reason : {Reason::AfterGeneration, Reason::Turns, Reason::User, Reason::Threshold, Reason::Pressure,
                              Reason::Yield, Reason::Idle, Reason::Delete}) {
    words.emplace_back(reason_name(reason));
  }
  EXPECT_EQ(words, (Names{"after_generation", "turns", "user", "threshold", "pressure", "yield", "idle", "delete"}));
  words.clear();
  for (const ConversationState state :
       {ConversationState::Active, ConversationState::Idle, ConversationState::Parked}) {
    words.emplace_back(state_name(state));
  }
  EXPECT_EQ(words, (Names{"active", "idle", "parked"}));
}

TEST(StatusJson, PlanHasExactlyTheFieldsOfA35) {
  Plan plan;
  plan.devices.emplace_back();
  plan.units.push_back({"layer 0", 10, 20, kOnHost});
  plan.remedies = {"-c 4096"};
  const Json json = Json::parse(to_json(plan));
  EXPECT_EQ(names_of(json), (Names{"fits", "context", "devices", "host", "units", "remedies"}));
  EXPECT_EQ(names_of(json["devices"][0]),
            (Names{"index", "total_bytes", "free_bytes", "limit_bytes", "planned_bytes", "kinds"}));
  EXPECT_EQ(names_of(json["host"]), (Names{"planned_bytes"}));
  EXPECT_EQ(names_of(json["units"][0]), (Names{"name", "weight_bytes", "kv_bytes", "device"}));
  EXPECT_EQ(json["units"][0]["device"], -1);
}

}  // namespace
}  // namespace ebb::engine
