// The texts of a chat as JSON, with the words the field uses, so that other tools can read it and any model can go on
// with it. What a chat goes on with without evaluating it again is engine::Chat::save().
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
/// Whether the file begins as JSON; false when it cannot be read.
[[nodiscard]] bool is_text_chat(const std::filesystem::path& path);
/// Errors   NotFound, Io; BadFile with what was expected where.
[[nodiscard]] Result<ChatRecord> load_chat(const std::filesystem::path& path);

}  // namespace ebb::cli
