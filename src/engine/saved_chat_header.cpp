#include "engine/internal/saved_chat_header.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "engine/chat_template.h"

namespace ebb::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostDepth = 4;  // the messages' own members lie deepest

/// Reads members of one object; the first that is not as it must be is remembered.
class Members {
 public:
  Members(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  void text(const char* key, std::string& value) {
    const Json* found = find(key);
    if (found != nullptr && found->is_string()) {
      value = found->get<std::string>();
    } else {
      wrong(key, "a text");
    }
  }
  void count(const char* key, std::uint64_t& value) {
    const Json* found = find(key);
    if (found != nullptr && found->is_number_unsigned()) {
      value = found->get<std::uint64_t>();
    } else {
      wrong(key, "a whole number");
    }
  }
  [[nodiscard]] Status outcome() const {
    if (problem_.empty()) return {};
    return fail(ErrorCode::BadFile, problem_);
  }

 private:
  [[nodiscard]] const Json* find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto member = object_.find(key);
    return member == object_.end() ? nullptr : &*member;
  }
  void wrong(const char* key, std::string_view wanted) {
    if (problem_.empty()) problem_ = fmt::format("{}: \"{}\" must be {}", where_, key, wanted);
  }

  const Json& object_;
  std::string where_;
  std::string problem_;
};

Status read_kv(const Json& object, const std::string& where, SavedChat& chat) {
  Members kv(object, where + ": \"kv\"");
  kv.text("global", chat.kv.global);
  kv.text("local", chat.kv.local);
  kv.text("arithmetic", chat.kv.arithmetic);
  kv.count("layers", chat.kv.layers);
  kv.count("kv_heads", chat.kv.kv_heads);
  kv.count("head_dim", chat.kv.head_dim);
  kv.count("window_tokens", chat.kv.window_tokens);
  kv.count("rewind_tokens", chat.kv.rewind_tokens);
  kv.count("first_kept", chat.first_kept);
  kv.count("record_base", chat.record_base);
  return kv.outcome();
}

}  // namespace

std::string write_saved_chat_header(const SavedChat& chat) {
  const SavedKv& kv = chat.kv;
  Json root{{"model", chat.model_name}, {"model_id", chat.model_id}};
  root["kv"] = {{"global", kv.global},
                {"local", kv.local},
                {"arithmetic", kv.arithmetic},
                {"layers", kv.layers},
                {"kv_heads", kv.kv_heads},
                {"head_dim", kv.head_dim},
                {"window_tokens", kv.window_tokens},
                {"rewind_tokens", kv.rewind_tokens},
                {"first_kept", chat.first_kept},
                {"record_base", chat.record_base}};
  root["messages"] = Json::array();
  for (const ChatMessage& message : chat.messages) {
    root["messages"].push_back({{"role", message.role}, {"content", message.text}});
  }
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status read_saved_chat_header(std::string_view json, const std::string& where, SavedChat& chat) {
  bool too_deep = false;
  const auto shallow = [&too_deep](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMostDepth;
    return !too_deep;
  };
  const Json root = Json::parse(json, shallow, /*allow_exceptions=*/false);
  if (too_deep || !root.is_object()) return fail(ErrorCode::BadFile, where + ": its header is not the JSON of a saved chat");
  Members members(root, where);
  members.text("model", chat.model_name);
  members.text("model_id", chat.model_id);
  EBB_TRY(members.outcome());
  EBB_TRY(read_kv(root.value("kv", Json()), where, chat));
  const Json messages = root.value("messages", Json());
  if (!messages.is_array()) return fail(ErrorCode::BadFile, where + ": \"messages\" must be a list");
  for (const Json& message : messages) {
    ChatMessage& added = chat.messages.emplace_back();
    Members parts(message, fmt::format("{}, message {}", where, chat.messages.size()));
    parts.text("role", added.role);
    parts.text("content", added.text);
    EBB_TRY(parts.outcome());
    if (!parse_role(added.role)) {
      return fail(ErrorCode::BadFile, fmt::format("{}, message {}: the role \"{}\" is not known", where, chat.messages.size(), added.role));
    }
  }
  return {};
}

}  // namespace ebb::engine
