// Lines typed by a person, with editing and a history that outlives the program (libedit); or plain lines when standard
// input is no terminal. Called by chat.cpp. One at a time: it owns the terminal while it reads.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace ebb::cli {

enum class LineOutcome : std::uint8_t {
  Line,
  Discarded,    // Ctrl-C with something typed
  Interrupted,  // Ctrl-C on an empty line
  EndOfInput,   // Ctrl-D, or the end of the pipe
};

class LineEditor {
 public:
  /// `history_file` is made readable by its owner only; a folder that cannot be written means no history is kept.
  explicit LineEditor(std::filesystem::path history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;  // owns the terminal's mode
  LineEditor& operator=(const LineEditor&) = delete;

  /// `line` gets the text without its newline. `prompt` is shown on a terminal only.
  LineOutcome read(const std::string& prompt, std::string& line);
  /// Adds to the history and saves it.
  void remember(const std::string& line);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ebb::cli
