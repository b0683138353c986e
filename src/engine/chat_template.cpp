#include "engine/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "engine/internal/turns.h"

namespace ebb::engine {

namespace {

using tokenizer::ControlText;
using tokenizer::TokenId;
using tokenizer::Tokenizer;

/// Builds text and ids side by side: each stretch between two control tokens is encoded as one, and never as control.
class PromptWriter {
 public:
  explicit PromptWriter(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void control(TokenId id) {
    flush();
    made_.ids.push_back(id);
    made_.text += tokenizer_.bytes(id);
  }
  void text(std::string_view text) { open_ += text; }
  Prompt take() {
    flush();
    return std::move(made_);
  }

 private:
  void flush() {
    const std::vector<TokenId> ids = tokenizer_.encode(open_, ControlText::Literal);
    made_.ids.insert(made_.ids.end(), ids.begin(), ids.end());
    made_.text += std::exchange(open_, {});
  }

  const Tokenizer& tokenizer_;
  Prompt made_;
  std::string open_;  // text since the last control token
};

Result<Prompt> render_gemma(const Tokenizer& tokenizer, const Turns& turns, bool add_generation_prompt) {
  const tokenizer::SpecialIds& special = tokenizer.special();
  if (special.bos == -1 || special.start_of_turn == -1 || special.end_of_turn == -1) {
    return fail(ErrorCode::Unsupported,
                "the vocabulary lacks <bos>, <start_of_turn> or <end_of_turn>, so Gemma's turns cannot be written; try "
                "--chat-template plain");
  }
  PromptWriter writer(tokenizer);
  writer.control(special.bos);
  for (std::size_t at = 0; at < turns.turns.size(); ++at) {
    const Turn& turn = turns.turns[at];
    writer.control(special.start_of_turn);
    writer.text(turn.is_model ? "model\n" : "user\n");
    if (at == 0 && !turns.system.empty()) {
      writer.text(turns.system);
      writer.text("\n\n");
    }
    writer.text(turn.text);
    const bool is_continued = add_generation_prompt && turn.is_model && at + 1 == turns.turns.size();
    if (is_continued) return writer.take();
    writer.control(special.end_of_turn);
    writer.text("\n");
  }
  if (add_generation_prompt) {
    writer.control(special.start_of_turn);
    writer.text("model\n");
  }
  return writer.take();
}

Result<Prompt> render_plain(const Tokenizer& tokenizer, const Turns& turns, bool add_generation_prompt) {
  if (tokenizer.special().bos == -1) return fail(ErrorCode::Unsupported, "the vocabulary lacks <bos>");
  PromptWriter writer(tokenizer);
  writer.control(tokenizer.special().bos);
  if (const std::string_view system = stripped(turns.system); !system.empty()) {
    writer.text(system);
    writer.text("\n\n");
  }
  for (std::size_t at = 0; at < turns.turns.size(); ++at) {
    const Turn& turn = turns.turns[at];
    const bool is_last = at + 1 == turns.turns.size();
    writer.text(turn.is_model ? "Answer:" : "Question:");
    // No space before an answer that is yet to come: the model's own tokens begin with it.
    if (!turn.text.empty()) {
      writer.text(" ");
      writer.text(turn.text);
    }
    if (is_last && turn.is_model && add_generation_prompt) return writer.take();
    // One newline also after an answer: that is how the model goes on by itself, so what it has evaluated stays a
    // prefix.
    writer.text("\n");
  }
  if (add_generation_prompt) writer.text("Answer:");
  return writer.take();
}

}  // namespace

Result<Role> parse_role(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Role>, 6> kRoles = {{{"system", Role::System},
                                                                        {"developer", Role::System},
                                                                        {"user", Role::User},
                                                                        {"assistant", Role::Assistant},
                                                                        {"model", Role::Assistant},
                                                                        {"tool", Role::Tool}}};
  for (const auto& [known, role] : kRoles) {
    if (name == known) return role;
  }
  return fail(
      ErrorCode::InvalidArgument,
      fmt::format("unknown role \"{}\"; accepted are system, developer, user, assistant, model and tool", name));
}

Result<Prompt> render(const Tokenizer& tokenizer, PromptStyle style, std::span<const Message> messages,
                      bool add_generation_prompt) {
  EBB_TRY_ASSIGN(const Turns turns, make_turns(messages));
  return style == PromptStyle::Gemma ? render_gemma(tokenizer, turns, add_generation_prompt)
                                     : render_plain(tokenizer, turns, add_generation_prompt);
}

std::vector<std::string> stop_strings(PromptStyle style) {
  if (style == PromptStyle::Gemma) return {};
  return {"\nQuestion:", "\nAnswer:"};
}

Result<PromptStyle> choose_template(bool file_has_template, std::string_view model_name, std::string_view wish) {
  if (wish == "gemma") return PromptStyle::Gemma;
  if (wish == "plain") return PromptStyle::Plain;
  if (!wish.empty()) {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("unknown chat template \"{}\"; accepted are gemma and plain", wish));
  }
  if (file_has_template) return PromptStyle::Gemma;
  std::string word;
  const auto is_instruct = [](std::string_view text) { return text == "it" || text == "instruct" || text == "chat"; };
  for (const char c : model_name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      word += static_cast<char>(std::tolower(byte));
      continue;
    }
    if (is_instruct(word)) return PromptStyle::Gemma;
    word.clear();
  }
  return is_instruct(word) ? PromptStyle::Gemma : PromptStyle::Plain;
}

}  // namespace ebb::engine
