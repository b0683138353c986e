// Messages to the prompt that a model continues: Gemma's turns, or plain questions and answers for a base model.
// Any order of roles is accepted (T4). Message text never becomes a control token (T2); the prompt begins with one
// <bos>. Refuses pictures. Called by Chat and by the server. Source   the chat template of Gemma 3 (gemma-3-*-it),
// trimming as Python's str.strip.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace ebb::engine {

enum class Role : std::uint8_t { System, User, Assistant, Tool };

/// "system" and "developer" (the same thing), "user", "assistant" and "model" (the same thing), "tool".
/// Errors   InvalidArgument naming the role and what is accepted.
[[nodiscard]] Result<Role> parse_role(std::string_view name);

struct MessagePart {
  enum class Kind : std::uint8_t { Text, Picture };
  Kind kind = Kind::Text;
  std::string text;
};

/// No parts mean empty text.
struct Message {
  Role role = Role::User;
  std::vector<MessagePart> parts;
};

struct Prompt {
  std::vector<tokenizer::TokenId> ids;  // <bos> first
  std::string text;                     // the same with control tokens spelled out
};

/// How the messages become turns of user and model in alternation:
/// - neighbours of one role are joined by a blank line; a tool's message counts as the user's;
/// - leading system texts are joined likewise and open the first user turn, untrimmed and followed by a blank line, of
///   several parts the first alone (as the reference does); empty ones are left out;
/// - later system texts open the next user turn; an assistant first gets an empty user turn before it;
/// - with `add_generation_prompt` a trailing assistant message is continued: its end marker is left off.
/// Errors   InvalidArgument for no messages; Unsupported for a picture, or a vocabulary without turn markers.
[[nodiscard]] Result<Prompt> render(const tokenizer::Tokenizer& tokenizer, PromptStyle style,
                                    std::span<const Message> messages, bool add_generation_prompt);

/// Strings before which an answer in this style ends, besides the model's end tokens.
[[nodiscard]] std::vector<std::string> stop_strings(PromptStyle style);

/// Gemma when the file has a chat template or its name says that it is an instruct model ("it", "instruct", "chat" as a
/// word of it), else Plain. `wish` decides where it is given: "gemma" or "plain".
/// Errors   InvalidArgument for another wish.
[[nodiscard]] Result<PromptStyle> choose_template(bool file_has_template, std::string_view model_name,
                                                  std::string_view wish);

}  // namespace ebb::engine
