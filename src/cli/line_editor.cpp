#include "cli/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cwchar>
#include <string_view>

#include "cli/terminal.h"

namespace ebb::cli {

namespace {

constexpr int kHistoryLines = 1000;

struct EditorEnd {
  void operator()(EditLine* editor) const { el_end(editor); }
};
struct HistoryEnd {
  void operator()(History* history) const { history_end(history); }
};

volatile sig_atomic_t resized = 0;
void on_resize(int) { resized = 1; }

// libedit thinks in wide characters of the locale, and a locale that is not UTF-8 would lose Chinese text.
void use_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

// What libedit hands back to the functions it calls.
struct Typing {
  std::string prompt;
  bool had_text = false;  // when Ctrl-C was pressed
};

Typing& typing_of(EditLine* editor) {
  void* data = nullptr;
  el_get(editor, EL_CLIENTDATA, &data);
  return *static_cast<Typing*>(data);
}

// Reads one character; unlike libedit's own reader it gives up on Ctrl-C.
int read_character(EditLine* editor, wchar_t* character) {
  std::mbstate_t state{};
  while (true) {
    if (!wait_readable(STDIN_FILENO)) {
      const LineInfo* line = el_line(editor);
      typing_of(editor).had_text = line->lastchar > line->buffer;
      return -1;
    }
    if (resized != 0) {
      resized = 0;
      el_resize(editor);
    }
    char byte = 0;
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count == 0) return 0;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    const std::size_t used = std::mbrtowc(character, &byte, 1, &state);
    if (used == static_cast<std::size_t>(-2)) continue;
    if (used == static_cast<std::size_t>(-1)) {
      state = {};  // not UTF-8: drop it
      continue;
    }
    return 1;
  }
}

}  // namespace

struct LineEditor::State {
  std::filesystem::path history_file;
  Typing typing;
  std::unique_ptr<EditLine, EditorEnd> editor;  // none when standard input is no terminal
  std::unique_ptr<History, HistoryEnd> history;
};

namespace {

char* current_prompt(EditLine* editor) { return typing_of(editor).prompt.data(); }

LineOutcome read_plain(std::string& line) {
  line.clear();
  while (true) {
    const int byte = std::getc(stdin);
    if (byte == '\n') return LineOutcome::Line;
    if (byte != EOF) {
      line += static_cast<char>(byte);
      continue;
    }
    if (interrupted()) return LineOutcome::Interrupted;
    return line.empty() ? LineOutcome::EndOfInput : LineOutcome::Line;
  }
}

}  // namespace

LineEditor::LineEditor(std::filesystem::path history_file) : state_(std::make_unique<State>()) {
  if (!stdin_is_terminal()) return;
  use_utf8_locale();
  state_->history_file = std::move(history_file);
  state_->history.reset(history_init());
  state_->editor.reset(el_init("ebb", stdin, stdout, stderr));
  if (!state_->editor || !state_->history) {
    state_->editor.reset();
    return;
  }
  HistEvent event{};
  history(state_->history.get(), &event, H_SETSIZE, kHistoryLines);
  history(state_->history.get(), &event, H_SETUNIQUE, 1);
  history(state_->history.get(), &event, H_LOAD, state_->history_file.c_str());
  EditLine* editor = state_->editor.get();
  el_set(editor, EL_CLIENTDATA, &state_->typing);
  el_set(editor, EL_PROMPT, current_prompt);
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, history, state_->history.get());
  el_set(editor, EL_GETCFN, read_character);
  el_source(editor, nullptr);
  struct sigaction action {};
  action.sa_handler = on_resize;
  sigaction(SIGWINCH, &action, nullptr);
}

LineEditor::~LineEditor() = default;

LineOutcome LineEditor::read(const std::string& prompt, std::string& line) {
  if (!state_->editor) return read_plain(line);
  state_->typing = {prompt, false};
  EditLine* editor = state_->editor.get();
  // libedit shows the prompt first and would leave the terminal's own line editing on until it reads: a Ctrl-C in
  // between would find an empty line.
  el_set(editor, EL_PREP_TERM, 1);
  int count = 0;
  const char* text = el_gets(editor, &count);
  if (text != nullptr && count > 0 && !interrupted()) {
    line.assign(text, static_cast<std::size_t>(count));
    if (line.ends_with('\n')) line.pop_back();
    return LineOutcome::Line;
  }
  el_reset(editor);
  std::fputs("\n", stdout);
  if (!interrupted()) return LineOutcome::EndOfInput;
  return state_->typing.had_text ? LineOutcome::Discarded : LineOutcome::Interrupted;
}

void LineEditor::remember(const std::string& line) {
  if (!state_->editor || line.empty()) return;
  HistEvent event{};
  history(state_->history.get(), &event, H_ENTER, line.c_str());
  std::error_code ignored;
  std::filesystem::create_directories(state_->history_file.parent_path(), ignored);
  // Written beside and renamed, so that a full disk costs the new line and not the old ones.
  const std::filesystem::path fresh = state_->history_file.string() + ".new";
  const mode_t previous = umask(S_IRWXG | S_IRWXO);
  const bool saved = history(state_->history.get(), &event, H_SAVE, fresh.c_str()) >= 0;
  umask(previous);
  if (saved) {
    std::filesystem::rename(fresh, state_->history_file, ignored);
  } else {
    std::filesystem::remove(fresh, ignored);
  }
}

}  // namespace ebb::cli
