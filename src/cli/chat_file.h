// A saved chat: the texts, not the model's state. JSON with the words the field uses, so that other tools can read it.
// Called by /save and /load. Saving replaces a file in one step or not at all; loading changes nothing when it fails.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/chat.h"

namespace ebb::cli {

struct ChatRecord {
  std::string model;  // the model's name, for the reader's information
  std::string system;
  std::vector<engine::ChatMessage> messages;
};

/// Errors   Io with the system's reason; the old file is then as it was.
[[nodiscard]] Status save_chat(const std::filesystem::path& path, const ChatRecord& record);
/// Errors   NotFound, Io; BadFile with what was expected where.
[[nodiscard]] Result<ChatRecord> load_chat(const std::filesystem::path& path);

}  // namespace ebb::cli
