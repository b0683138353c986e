#include "engine/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/chat_template.h"
#include "engine/engine.h"
#include "engine/internal/engine_state.h"

namespace ebb::engine {

namespace {

/// An answer to "Answer:" begins with the space that belongs to the prompt; nobody wants to see it.
std::string_view without_leading_space(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \n");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

/// Passes text on from its first visible character on.
TokenSink skip_leading_space(const TokenSink& sink) {
  return [&sink, begun = false](const TokenEvent& event) mutable {
    TokenEvent shown = event;
    if (!begun) shown.text = without_leading_space(event.text);
    begun = begun || !shown.text.empty();
    return sink(shown);
  };
}

}  // namespace

struct Chat::State {
  Engine& engine;
  std::unique_ptr<Conversation> conversation;
  std::vector<ChatMessage> messages;  // a system text, if any, comes first

  [[nodiscard]] Result<Answer> make_answer(GenerateOptions options, const TokenSink& sink, const Progress& progress) {
    std::vector<Message> parts;
    for (const ChatMessage& message : messages) {
      EBB_TRY_ASSIGN(const Role role, parse_role(message.role));
      parts.push_back({role, {{MessagePart::Kind::Text, message.text}}});
    }
    const PromptStyle style = engine.info().prompt_style;
    EBB_TRY_ASSIGN(const Prompt prompt, render(*engine.state().tokenizer, style, parts, /*add_generation_prompt=*/true));
    for (std::string& stop : stop_strings(style)) options.stop.push_back(std::move(stop));
    EBB_TRY_ASSIGN(Answer answer,
                   conversation->generate(prompt.ids, options, sink ? skip_leading_space(sink) : sink, progress));
    answer.text = without_leading_space(answer.text);
    return answer;
  }
};

Chat::Chat(std::unique_ptr<State> state) : state_(std::move(state)) {}
Chat::~Chat() = default;

Result<std::unique_ptr<Chat>> Chat::create(Engine& engine) {
  EBB_TRY_ASSIGN(auto conversation, engine.new_conversation());
  auto state = std::unique_ptr<State>(new State{engine, std::move(conversation), {}});
  return std::unique_ptr<Chat>(new Chat(std::move(state)));
}

Result<Answer> Chat::say(std::string_view text, const GenerateOptions& options, const TokenSink& sink,
                         const Progress& progress) {
  state_->messages.push_back({"user", std::string(text)});
  Result<Answer> answer = state_->make_answer(options, sink, progress);
  if (!answer || (answer->text.empty() && answer->finish == FinishReason::Cancelled)) {
    state_->messages.pop_back();
  } else {
    state_->messages.push_back({"assistant", answer->text});
  }
  return answer;
}

Result<Answer> Chat::regenerate(const GenerateOptions& options, const TokenSink& sink, const Progress& progress) {
  std::vector<ChatMessage>& messages = state_->messages;
  if (messages.empty() || messages.back().role != "assistant") {
    return fail(ErrorCode::InvalidArgument, "there is no answer to make again; say something first");
  }
  ChatMessage last = std::move(messages.back());
  messages.pop_back();
  Result<Answer> answer = state_->make_answer(options, sink, progress);
  if (answer && !(answer->text.empty() && answer->finish == FinishReason::Cancelled)) last.text = answer->text;
  messages.push_back(std::move(last));
  return answer;
}

void Chat::set_system(std::string text) {
  std::vector<ChatMessage>& messages = state_->messages;
  if (!messages.empty() && messages.front().role == "system") messages.erase(messages.begin());
  if (!text.empty()) messages.insert(messages.begin(), {"system", std::move(text)});
}

const std::vector<ChatMessage>& Chat::messages() const { return state_->messages; }

Status Chat::set_messages(std::vector<ChatMessage> messages) {
  for (const ChatMessage& message : messages) EBB_TRY(parse_role(message.role).map([](Role) {}));
  state_->messages = std::move(messages);
  return {};
}

Receipt Chat::reset() {
  std::erase_if(state_->messages, [](const ChatMessage& message) { return message.role != "system"; });
  return state_->conversation->reset();
}

Status Chat::save(const std::filesystem::path& path) { return state_->conversation->save(path, state_->messages); }

Status Chat::load(const std::filesystem::path& path) {
  EBB_TRY_ASSIGN(state_->messages, state_->conversation->load(path));
  return {};
}

Conversation& Chat::conversation() { return *state_->conversation; }

}  // namespace ebb::engine
