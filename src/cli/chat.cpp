// `ebb chat`: messages and answers in the terminal, with commands that begin with a slash.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/answer_report.h"
#include "cli/chat_file.h"
#include "cli/commands.h"
#include "cli/line_editor.h"
#include "cli/memory_table.h"
#include "cli/model_path.h"
#include "cli/open_model.h"
#include "cli/receipt_report.h"
#include "cli/suggest.h"
#include "cli/terminal.h"
#include "engine/chat.h"

namespace ebb::cli {

namespace {

struct CommandHelp {
  const char* name;
  const char* argument;
  const char* help;
};
constexpr std::array<CommandHelp, 10> kCommandHelp{
    {{"/reset", "", "new conversation; its memory goes back to the device"},
     {"/clear", "[all]", "give all memory back but weights and open chats; with all those too, until they are needed"},
     {"/memory", "", "what holds memory, by device and kind"},
     {"/regen", "", "another answer to the last message"},
     {"/save", "FILE", "write the chat, ready to go on with; NAME.json: its texts alone"},
     {"/load", "FILE", "go on with a saved chat of either form"},
     {"/system", "TEXT", "instructions before the conversation; none without TEXT"},
     {"/help", "", "this list"},
     {"/exit", "", "leave; so does Ctrl-D"},
     {"/quit", "", "leave"}}};

class ChatScreen {
 public:
  ChatScreen(engine::Engine& model, engine::Chat& chat, const Options& options)
      : model_(model), chat_(chat), options_(options), editor_(state_folder(process_environment()) / "chat_history") {
    set_system(options.system);
  }

  Status run() {
    introduce();
    std::string message;
    while (!left_ && read_message(message)) {
      if (message.starts_with('/')) {
        obey(message);
      } else if (message.find_first_not_of(" \t") != std::string::npos) {
        answer([&](const auto& sink, const auto& progress) {
          return chat_.say(message, options_.generate, sink, progress);
        });
      }
      EBB_TRY(std::move(output_));
      output_ = {};
    }
    return {};
  }

 private:
  void introduce() {
    if (options_.verbosity < 1) return;
    const engine::ModelInfo& info = model_.info();
    note(fmt::format("{}, context {} tokens; /help lists the commands", model_line(info), info.context));
    const bool turns = info.prompt_style == engine::PromptStyle::Gemma;
    const char* style = turns ? "Gemma's turns" : "plain questions and answers";
    if (!options_.engine.chat_template.empty()) {
      note(fmt::format("prompt style: {}, as --chat-template asks", style));
    } else if (turns) {
      note(fmt::format("prompt style: {}, since this is an instruct model", style));
    } else {
      note(
          fmt::format("prompt style: {}, since the file has no chat template and its name does not say instruct "
                      "(--chat-template gemma for turns)",
                      style));
    }
  }

  // A backslash at the end of a line means that the message goes on.
  bool read_message(std::string& message) {
    message.clear();
    const char* prompt = "> ";
    while (true) {
      std::string line;
      const LineOutcome outcome = editor_.read(prompt, line);
      clear_interrupt();
      if (outcome == LineOutcome::Discarded) return true;
      if (outcome != LineOutcome::Line) return false;
      editor_.remember(line);
      const bool goes_on = line.ends_with('\\');
      if (goes_on) line.back() = '\n';
      message += line;
      if (!goes_on) return true;
      prompt = ". ";
    }
  }

  template <typename Ask>
  void answer(const Ask& ask) {
    ProgressBar bar("reading", options_.verbosity >= 1);
    const engine::TokenSink sink = [&](const engine::TokenEvent& event) {
      bar.clear();
      print(event.text);
      return output_.has_value() && go_on();
    };
    const engine::Progress progress = [&](std::size_t done, std::size_t total) {
      bar.update(done, total);
      return go_on();
    };
    const Result<engine::Answer> result = ask(sink, progress);
    bar.clear();
    clear_interrupt();
    if (!result) {
      report(result.error());
      return;
    }
    if (!result->text.ends_with('\n')) print("\n");
    const std::string ending = ending_note(*result, model_.info());
    if (!ending.empty()) warn(ending);
    if (options_.verbosity >= 2) note(timing_line(*result));
  }

  void obey(const std::string& line) {
    const std::size_t space = line.find_first_of(" \t");
    const std::string name = line.substr(0, space);
    const std::size_t begin = space == std::string::npos ? space : line.find_first_not_of(" \t", space);
    const std::string argument =
        begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(" \t\n") + 1 - begin);
    if (name == "/reset") {
      note("new conversation; " + receipt_line(chat_.reset()));
    } else if (name == "/clear") {
      clear(argument);
    } else if (name == "/memory") {
      print(memory_table(model_.memory(), stdout_has_colours()));
    } else if (name == "/regen") {
      answer(
          [&](const auto& sink, const auto& progress) { return chat_.regenerate(options_.generate, sink, progress); });
    } else if (name == "/save") {
      save(argument);
    } else if (name == "/load") {
      load(argument);
    } else if (name == "/system") {
      set_system(argument);
      note(argument.empty() ? "no system text from the next message on" : "system text set from the next message on");
    } else if (name == "/help") {
      print(help());
    } else if (name == "/exit" || name == "/quit") {
      left_ = true;
    } else {
      std::vector<std::string> names;
      for (const CommandHelp& command : kCommandHelp) names.emplace_back(command.name);
      warn(fmt::format("unknown command {}{} (/help lists them; a space in front makes it a message)", name,
                       did_you_mean(name, names)));
    }
  }

  void clear(const std::string& argument) {
    if (!argument.empty() && argument != "all") return warn("/clear takes nothing, or the word all");
    print(receipt_text(model_.reclaim(engine::Level::Full, argument == "all")));
  }

  // Without the system text, which is kept apart.
  [[nodiscard]] std::vector<engine::ChatMessage> spoken() const {
    std::vector<engine::ChatMessage> messages = chat_.messages();
    std::erase_if(messages, [](const engine::ChatMessage& message) { return message.role == "system"; });
    return messages;
  }

  void save(const std::string& file) {
    if (file.empty()) return warn("/save needs a file: /save FILE");
    const std::filesystem::path path = expand_home(file, process_environment());
    const bool text_alone = path.extension() == ".json";
    const Status saved = text_alone ? save_chat(path, {model_.info().name, system_, spoken()}) : chat_.save(path);
    if (!saved) return refuse(saved.error());
    note(text_alone ? fmt::format("{} messages saved to {}; their tokens will be evaluated again", spoken().size(), path.string())
                    : fmt::format("{} messages saved to {}, with {} evaluated tokens", spoken().size(), path.string(),
                                  chat_.conversation().tokens().size()));
  }

  void load(const std::string& file) {
    if (file.empty()) return warn("/load needs a file: /load FILE");
    const std::filesystem::path path = expand_home(file, process_environment());
    if (is_text_chat(path)) return load_texts(path);
    if (const Status loaded = chat_.load(path); !loaded) return refuse(loaded.error());
    const std::vector<engine::ChatMessage>& messages = chat_.messages();
    system_ = !messages.empty() && messages.front().role == "system" ? messages.front().text : "";
    note(fmt::format("{} messages loaded, with {} evaluated tokens", spoken().size(), chat_.conversation().tokens().size()));
  }

  void load_texts(const std::filesystem::path& path) {
    Result<ChatRecord> record = load_chat(path);
    if (!record) return refuse(record.error());
    if (const Status set = chat_.set_messages(std::move(record->messages)); !set) return refuse(set.error());
    set_system(record->system);
    note(fmt::format("{} messages loaded", spoken().size()));
    if (record->model != model_.info().name) note(fmt::format("they were written with {}", record->model));
  }

  static void refuse(const Error& error) { static_cast<void>(report(error)); }

  void set_system(const std::string& text) {
    system_ = text;
    chat_.set_system(text);
  }

  static std::string help() {
    std::string text;
    for (const CommandHelp& command : kCommandHelp)
      text += fmt::format("  {:<8}{:<6}{}\n", command.name, command.argument, command.help);
    return text + "  A backslash at the end of a line continues the message in the next. Ctrl-C stops an answer.\n";
  }

  void print(std::string_view text) {
    if (output_ && !text.empty()) output_ = write_output(text);
  }

  engine::Engine& model_;
  engine::Chat& chat_;
  const Options& options_;
  LineEditor editor_;
  std::string system_;
  Status output_;  // the first failure to write
  bool left_ = false;
};

}  // namespace

Result<int> run_chat(const Options& options) {
  EBB_TRY_ASSIGN(const std::unique_ptr<engine::Engine> model, open_model(options));
  EBB_TRY_ASSIGN(const std::unique_ptr<engine::Chat> chat, engine::Chat::create(*model));
  ChatScreen screen(*model, *chat, options);
  EBB_TRY(screen.run());
  return kExitDone;
}

}  // namespace ebb::cli
