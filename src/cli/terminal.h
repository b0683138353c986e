// What the commands ask of the terminal: is it one, may colours be used, was Ctrl-C pressed, show how far the work is.
// Standard output carries results only; everything here goes to standard error. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ebb::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitWrongUse = 2;
inline constexpr int kExitInterrupted = 130;  // what a shell reports after Ctrl-C

[[nodiscard]] bool stdin_is_terminal();
[[nodiscard]] bool stdout_is_terminal();
[[nodiscard]] bool stderr_is_terminal();
/// A terminal that has not said no to colours (NO_COLOR, TERM=dumb).
[[nodiscard]] bool stdout_has_colours();

/// Ctrl-C sets a flag; pressed again before anyone cleared the flag, it ends the program. A dead pipe ends it quietly.
void install_signal_handlers();
[[nodiscard]] bool interrupted();
void clear_interrupt();
/// Waits until `descriptor` can be read; false when Ctrl-C comes first, at whatever moment and on whichever thread.
[[nodiscard]] bool wait_readable(int descriptor);
/// Lets time pass; false when Ctrl-C comes first.
[[nodiscard]] bool pause(std::chrono::milliseconds time);

/// Writes and flushes. Errors: Io (disk full, closed).
[[nodiscard]] Status write_output(std::string_view text);

/// A line on stderr: "ebb: text".
void note(std::string_view text);
void warn(std::string_view text);
/// The error in red where colours are allowed. Returns the exit code that belongs to it.
int report(const Error& error);

/// A bar on a terminal, redrawn in place and gone at the end; elsewhere a plain line every few seconds. Appears only
/// when the work takes long enough to wonder about.
class ProgressBar {
 public:
  ProgressBar(std::string label, bool wanted);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;  // owns a line of the terminal
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::size_t done, std::size_t total, std::string_view detail = {});
  /// Takes the bar off the screen, for other text to follow.
  void clear();

 private:
  std::string label_;
  bool wanted_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace ebb::cli
