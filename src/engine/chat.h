// A chat: messages, the template that turns them into a prompt, and the conversation that answers it.
// Called by cli/ (and later server/). An instruct model gets Gemma's turns, a base model plain questions and answers.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/answer.h"
#include "engine/conversation.h"
#include "engine/options.h"
#include "engine/receipt.h"

namespace ebb::engine {

class Engine;

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string text;
};

class Chat {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Chat>> create(Engine& engine);
  ~Chat();
  Chat(const Chat&) = delete;  // owns a conversation
  Chat& operator=(const Chat&) = delete;

  /// Adds the user's message and the answer to it. A failed or empty-handed attempt leaves the messages as they were;
  /// a cancelled answer keeps what was said.
  [[nodiscard]] Result<Answer> say(std::string_view text, const GenerateOptions& options, const TokenSink& sink,
                                   const Progress& progress);
  /// Drops the last answer and makes another. Errors: InvalidArgument when there is none.
  [[nodiscard]] Result<Answer> regenerate(const GenerateOptions& options, const TokenSink& sink, const Progress& progress);

  void set_system(std::string text);  // empty = none; takes effect with the next message
  [[nodiscard]] const std::vector<ChatMessage>& messages() const;
  /// Replaces all messages. Errors: InvalidArgument naming an unknown role; nothing changed.
  [[nodiscard]] Status set_messages(std::vector<ChatMessage> messages);
  /// New conversation: forgets messages (the system text stays) and gives the memory back.
  Receipt reset();
  /// Writes messages and KV to a file: load(), in another process too, goes on with nothing evaluated again.
  /// Errors   as Conversation::save.
  [[nodiscard]] Status save(const std::filesystem::path& path);
  /// Replaces all messages and the KV with a file's. Errors: as Conversation::load; the messages are as before.
  [[nodiscard]] Status load(const std::filesystem::path& path);
  [[nodiscard]] Conversation& conversation();

 private:
  struct State;
  explicit Chat(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ebb::engine
