#include "cli/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace ebb::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kFirstBar = std::chrono::milliseconds(300);
constexpr auto kBarStep = std::chrono::milliseconds(50);
constexpr auto kLineStep = std::chrono::seconds(5);
constexpr std::size_t kBarCells = 24;

volatile sig_atomic_t interrupt_flag = 0;
// The handler writes here, so that a wait ends even when the signal comes just before it, or to another thread.
std::array<int, 2> interrupt_pipe{-1, -1};

void on_interrupt(int) {
  if (interrupt_flag != 0) _exit(kExitInterrupted);
  interrupt_flag = 1;
  const int kept = errno;
  [[maybe_unused]] const ssize_t written = write(interrupt_pipe[1], "", 1);
  errno = kept;
}

bool colours_allowed(bool is_terminal) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return is_terminal && (no_color == nullptr || *no_color == '\0') && term != nullptr && std::strcmp(term, "dumb") != 0;
}

void say(std::string_view kind, std::string_view colour, std::string_view text) {
  const bool coloured = colours_allowed(stderr_is_terminal()) && !colour.empty();
  const std::string line =
      fmt::format("ebb: {}{}{}{}\n", coloured ? colour : "", kind, coloured ? "\033[0m" : "", text);
  std::fputs(line.c_str(), stderr);
}

}  // namespace

bool stdin_is_terminal() { return isatty(STDIN_FILENO) != 0; }
bool stdout_is_terminal() { return isatty(STDOUT_FILENO) != 0; }
bool stderr_is_terminal() { return isatty(STDERR_FILENO) != 0; }
bool stdout_has_colours() { return colours_allowed(stdout_is_terminal()); }

void install_signal_handlers() {
  if (pipe2(interrupt_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) interrupt_pipe = {-1, -1};
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // without SA_RESTART: a read that waits for the user must notice
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_DFL);  // some parents leave it ignored, and then a dead pipe would be an error to report
}

bool interrupted() { return interrupt_flag != 0; }
void clear_interrupt() {
  std::array<char, 8> taken;
  while (read(interrupt_pipe[0], taken.data(), taken.size()) > 0) {
  }
  interrupt_flag = 0;
}

bool wait_readable(int descriptor) {
  std::array<pollfd, 2> watched{{{descriptor, POLLIN, 0}, {interrupt_pipe[0], POLLIN, 0}}};
  while (!interrupted()) {
    if (poll(watched.data(), watched.size(), -1) >= 0 || errno != EINTR) return !interrupted();
  }
  return false;
}

bool pause(std::chrono::milliseconds time) {
  const Clock::time_point end = Clock::now() + time;
  pollfd watched{interrupt_pipe[0], POLLIN, 0};
  while (!interrupted()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return true;
    poll(&watched, 1, static_cast<int>(left.count()));
  }
  return false;
}

Status write_output(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) return {};
  return fail(ErrorCode::Io, fmt::format("cannot write to standard output: {}", std::strerror(errno)));
}

void note(std::string_view text) { say("", "", text); }
void warn(std::string_view text) { say("note: ", "\033[33m", text); }

int report(const Error& error) {
  say("error: ", "\033[31m", error.message);
  if (error.code == ErrorCode::Cancelled) return kExitInterrupted;
  return error.code == ErrorCode::InvalidArgument ? kExitWrongUse : kExitFailed;
}

ProgressBar::ProgressBar(std::string label, bool wanted)
    : label_(std::move(label)),
      wanted_(wanted),
      next_(Clock::now() + (stderr_is_terminal() ? Clock::duration(kFirstBar) : Clock::duration(kLineStep))) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::update(std::size_t done, std::size_t total, std::string_view detail) {
  const Clock::time_point now = Clock::now();
  if (!wanted_ || total == 0 || now < next_) return;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const std::string_view separator = detail.empty() ? "" : ", ";
  if (!stderr_is_terminal()) {
    note(fmt::format("{} {} of {} ({:.0f} %){}{}", label_, done, total, share * 100, separator, detail));
    next_ = now + kLineStep;
    return;
  }
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kBarCells));
  const std::string bar = fmt::format("\r{} [{:#<{}}{:.<{}}] {}/{}{}{}\033[K", label_, "", filled, "",
                                      kBarCells - filled, done, total, separator, detail);
  std::fputs(bar.c_str(), stderr);
  drawn_ = true;
  next_ = now + kBarStep;
}

void ProgressBar::clear() {
  if (!std::exchange(drawn_, false)) return;
  std::fputs("\r\033[K", stderr);
}

}  // namespace ebb::cli
