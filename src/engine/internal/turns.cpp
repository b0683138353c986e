#include "engine/internal/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ebb::engine {

namespace {

constexpr std::string_view kBlankLine = "\n\n";

/// What Python's str.isspace accepts, in UTF-8: white space of Unicode and the separators U+001C to U+001F.
constexpr std::array<std::string_view, 29> kSpaces = {
    "\t",           "\n",           "\v",           "\f",           "\r",
    "\x1C",         "\x1D",         "\x1E",         "\x1F",         " ",
    "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
    "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
    "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
    "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};

void append_paragraph(std::string& text, std::string_view more) {
  if (more.empty()) return;
  if (!text.empty()) text += kBlankLine;
  text += more;
}

std::string stripped_text(const Message& message) {
  std::string text;
  for (const MessagePart& part : message.parts) text += stripped(part.text);
  return text;
}

class TurnMaker {
 public:
  void add(const Message& message) {
    if (message.role == Role::System) {
      add_system(message);
      return;
    }
    const bool is_model = message.role == Role::Assistant;
    if (is_model && (made_.turns.empty() || !opening_.empty())) add_to(false, {});
    add_to(is_model, stripped_text(message));
  }

  Turns take() {
    if (made_.turns.empty() || !opening_.empty()) add_to(false, {});
    return std::move(made_);
  }

 private:
  void add_system(const Message& message) {
    const std::string_view text = message.parts.empty() ? std::string_view() : message.parts.front().text;
    if (made_.turns.empty()) {
      append_paragraph(made_.system, text);
    } else {
      append_paragraph(opening_, stripped(text));
    }
  }

  void add_to(bool is_model, std::string_view text) {
    if (made_.turns.empty() || made_.turns.back().is_model != is_model) made_.turns.push_back({is_model, {}});
    std::string& turn = made_.turns.back().text;
    if (!is_model) append_paragraph(turn, std::exchange(opening_, {}));
    append_paragraph(turn, text);
  }

  Turns made_;
  std::string opening_;  // later system texts, waiting for the next user turn
};

}  // namespace

std::string_view stripped(std::string_view text) {
  const auto is_at_start = [&](std::string_view space) { return text.starts_with(space); };
  const auto is_at_end = [&](std::string_view space) { return text.ends_with(space); };
  for (auto space = kSpaces.begin();
       (space = std::find_if(kSpaces.begin(), kSpaces.end(), is_at_start)) != kSpaces.end();) {
    text.remove_prefix(space->size());
  }
  for (auto space = kSpaces.begin();
       (space = std::find_if(kSpaces.begin(), kSpaces.end(), is_at_end)) != kSpaces.end();) {
    text.remove_suffix(space->size());
  }
  return text;
}

Result<Turns> make_turns(std::span<const Message> messages) {
  if (messages.empty()) return fail(ErrorCode::InvalidArgument, "there are no messages; give at least one");
  TurnMaker maker;
  for (std::size_t at = 0; at < messages.size(); ++at) {
    const auto& parts = messages[at].parts;
    const auto is_picture = [](const MessagePart& part) { return part.kind == MessagePart::Kind::Picture; };
    if (std::any_of(parts.begin(), parts.end(), is_picture)) {
      return fail(ErrorCode::Unsupported,
                  fmt::format("message {} holds a picture; this version of Ebb reads text only", at + 1));
    }
    maker.add(messages[at]);
  }
  return maker.take();
}

}  // namespace ebb::engine
