#include "cli/chat_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/prompt_source.h"

namespace ebb::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "ebb-chat";
constexpr int kVersion = 1;

tl::unexpected<Error> io_fault(const std::filesystem::path& path, std::string_view what) {
  return fail(ErrorCode::Io, fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return fsync(descriptor) == 0;
}

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

  std::string fresh = path.string() + ".XXXXXX";
  const int descriptor = mkstemp(fresh.data());
  if (descriptor < 0) return io_fault(path, "cannot be written");
  const bool written = write_all(descriptor, text) && close(descriptor) == 0;
  if (!written || rename(fresh.c_str(), path.c_str()) != 0) {
    const auto fault = io_fault(path, "cannot be written");
    unlink(fresh.c_str());
    return fault;
  }
  return {};
}

Result<ChatRecord> load_chat(const std::filesystem::path& path) {
  EBB_TRY_ASSIGN(const std::string text, read_text(path.string()));
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) return fail(ErrorCode::BadFile, fmt::format("{}: not JSON", path.string()));
  return read_record(root, path.string());
}

}  // namespace ebb::cli
