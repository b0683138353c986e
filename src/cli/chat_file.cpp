#include "cli/chat_file.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "base/file_replacement.h"
#include "cli/prompt_source.h"

namespace ebb::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "ebb-chat";
constexpr int kVersion = 1;

Result<std::string> text_member(const Json& object, const char* key, const std::string& where) {
  const auto member = object.find(key);
  if (member == object.end() || !member->is_string()) {
    return fail(ErrorCode::BadFile, fmt::format("{}: \"{}\" must be a text", where, key));
  }
  return member->get<std::string>();
}

Result<ChatRecord> read_record(const Json& root, const std::string& where) {
  if (!root.is_object() || root.value("format", Json()) != Json(kFormat)) {
    return fail(ErrorCode::BadFile, fmt::format("{}: not a saved chat (\"format\" must be \"{}\")", where, kFormat));
  }
  if (root.value("version", Json()) != Json(kVersion)) {
    return fail(ErrorCode::BadFile, fmt::format("{}: \"version\" is {}; this program reads {}", where,
                                                root.value("version", Json()).dump(), kVersion));
  }
  ChatRecord record;
  EBB_TRY_ASSIGN(record.model, text_member(root, "model", where));
  EBB_TRY_ASSIGN(record.system, text_member(root, "system", where));
  const auto messages = root.find("messages");
  if (messages == root.end() || !messages->is_array()) {
    return fail(ErrorCode::BadFile, fmt::format("{}: \"messages\" must be a list", where));
  }
  for (std::size_t message_idx = 0; message_idx < messages->size(); ++message_idx) {
    const Json& message = (*messages)[message_idx];
    const std::string place = fmt::format("{}, message {}", where, message_idx + 1);
    if (!message.is_object())
      return fail(ErrorCode::BadFile, place + ": must be an object with \"role\" and \"content\"");
    engine::ChatMessage entry;
    EBB_TRY_ASSIGN(entry.role, text_member(message, "role", place));
    EBB_TRY_ASSIGN(entry.text, text_member(message, "content", place));
    if (entry.role != "user" && entry.role != "assistant") {
      return fail(ErrorCode::BadFile, fmt::format("{}: role \"{}\"; use \"user\" or \"assistant\"", place, entry.role));
    }
    record.messages.push_back(std::move(entry));
  }
  return record;
}

}  // namespace

Status save_chat(const std::filesystem::path& path, const ChatRecord& record) {
  Json root{{"format", kFormat}, {"version", kVersion}, {"model", record.model}, {"system", record.system}};
  root["messages"] = Json::array();
  for (const engine::ChatMessage& message : record.messages) {
    root["messages"].push_back({{"role", message.role}, {"content", message.text}});
  }
  const std::string text = root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";

  EBB_TRY_ASSIGN(FileReplacement file, FileReplacement::create(path));
  EBB_TRY(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

bool is_text_chat(const std::filesystem::path& path) {
  if (std::error_code unreadable; !std::filesystem::is_regular_file(path, unreadable)) return false;
  std::ifstream file(path, std::ios::binary);
  char first = 0;
  return file >> first && first == '{';
}

Result<ChatRecord> load_chat(const std::filesystem::path& path) {
  EBB_TRY_ASSIGN(const std::string text, read_text(path.string()));
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) return fail(ErrorCode::BadFile, fmt::format("{}: not JSON", path.string()));
  return read_record(root, path.string());
}

}  // namespace ebb::cli
