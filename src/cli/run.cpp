// `ebb run`: one prompt, one answer. The answer alone goes to stdout.
#include <fmt/format.h>

#include <cstdio>

#include "cli/answer_report.h"
#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/prompt_source.h"
#include "cli/terminal.h"
#include "engine/chat.h"

namespace ebb::cli {

namespace {

using Tokens = std::vector<std::int32_t>;

// <bos>, then the text; a raw text may spell <bos> itself, and the model still sees one (T3).
Tokens continuation_prompt(const engine::Engine& model, const Options& options, const std::string& text) {
  const std::string whole = options.system.empty() ? text : options.system + "\n\n" + text;
  Tokens tokens = model.tokenize(whole, options.raw);
  std::size_t written = 0;
  while (written < tokens.size() && tokens[written] == model.bos()) ++written;
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(written));
  tokens.insert(tokens.begin(), model.bos());
  return tokens;
}

Result<engine::Answer> answer_prompt(engine::Engine& model, const Options& options, const std::string& text,
                                     const engine::TokenSink& sink, const engine::Progress& progress) {
  const bool in_turns = !options.raw && (model.info().instruct || !options.engine.chat_template.empty());
  if (in_turns) {
    EBB_TRY_ASSIGN(const std::unique_ptr<engine::Chat> chat, engine::Chat::create(model));
    chat->set_system(options.system);
    return chat->say(text, options.generate, sink, progress);
  }
  EBB_TRY_ASSIGN(const std::unique_ptr<engine::Conversation> conversation, model.new_conversation());
  return conversation->generate(continuation_prompt(model, options, text), options.generate, sink, progress);
}

}  // namespace

Result<int> run_once(const Options& options) {
  EBB_TRY_ASSIGN(const std::string prompt, gather_prompt(options.prompt, options.prompt_file));
  EBB_TRY_ASSIGN(const std::unique_ptr<engine::Engine> model, open_model(options));

  ProgressBar bar("reading the prompt", options.verbosity >= 1);
  Status written;
  bool ends_with_newline = true;
  const auto sink = [&](const engine::TokenEvent& event) {
    bar.clear();
    if (!options.json && !event.text.empty()) {
      written = write_output(event.text);
      ends_with_newline = event.text.ends_with('\n');
    }
    return written.has_value() && go_on();
  };
  const auto progress = [&](std::size_t done, std::size_t total) {
    bar.update(done, total);
    return go_on();
  };
  EBB_TRY_ASSIGN(const engine::Answer answer, answer_prompt(*model, options, prompt, sink, progress));
  EBB_TRY(std::move(written));

  if (options.json) {
    EBB_TRY(write_output(answer_json(answer, model->info().name)));
  } else if (!ends_with_newline) {
    EBB_TRY(write_output("\n"));
  }
  if (!options.json && !answer.log_probs.empty()) std::fputs(log_prob_table(answer).c_str(), stderr);
  const std::string ending = ending_note(answer, model->info());
  const bool limit_was_asked_for = answer.finish == engine::FinishReason::Length;
  if (!ending.empty() && !limit_was_asked_for) warn(ending);
  if (options.verbosity >= 1) note(timing_line(answer));
  return interrupted() ? kExitInterrupted : kExitDone;
}

}  // namespace ebb::cli
