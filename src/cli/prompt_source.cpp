#include "cli/prompt_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "cli/terminal.h"

namespace ebb::cli {

namespace {

constexpr int kSilentPipeMs = 3000;
constexpr std::size_t kMaxTextBytes = 256 * kMiB;  // far beyond any context; stops /dev/zero from filling the memory

Result<std::string> read_all(int descriptor, const std::string& name) {
  std::string text;
  std::array<char, 65536> buffer;
  while (true) {
    if (!wait_readable(descriptor)) return fail(ErrorCode::Cancelled, "stopped while reading " + name);
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count == 0) return text;
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
      if (text.size() > kMaxTextBytes) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{}: more than {} of text", name, format_bytes(kMaxTextBytes)));
      }
    } else if (errno != EINTR) {
      return fail(ErrorCode::Io, fmt::format("{}: cannot be read: {}", name, std::strerror(errno)));
    }
  }
}

bool something_arrives() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, kSilentPipeMs) != 0;
}

void append_part(std::string& prompt, std::string part, bool drop_newline) {
  if (drop_newline && part.ends_with('\n')) part.pop_back();
  if (part.empty()) return;
  if (!prompt.empty()) prompt += "\n\n";
  prompt += part;
}

}  // namespace

Result<std::string> read_text(const std::string& file) {
  if (file == "-") return read_all(STDIN_FILENO, "standard input");
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return fail(errno == ENOENT ? ErrorCode::NotFound : ErrorCode::Io,
                fmt::format("{}: cannot be read: {}", file, std::strerror(errno)));
  }
  Result<std::string> text = read_all(descriptor, file);
  close(descriptor);
  return text;
}

bool input_is_piped() {
  struct stat input {};
  return fstat(STDIN_FILENO, &input) == 0 &&
         (S_ISFIFO(input.st_mode) || S_ISREG(input.st_mode) || S_ISSOCK(input.st_mode));
}

Result<std::string> gather_prompt(const std::optional<std::string>& prompt, const std::optional<std::string>& file) {
  std::string text;
  if (prompt) append_part(text, *prompt, false);
  if (file) {
    EBB_TRY_ASSIGN(std::string part, read_text(*file));
    append_part(text, std::move(part), true);
  }
  const bool read_pipe = input_is_piped() && file != "-";
  if (read_pipe && ((!prompt && !file) || something_arrives())) {
    EBB_TRY_ASSIGN(std::string part, read_text("-"));
    append_part(text, std::move(part), true);
  } else if (read_pipe) {
    warn("standard input is a pipe that stayed silent for 3 seconds; answering without it (-f - waits for it)");
  }
  if (!text.empty()) return text;
  return fail(ErrorCode::InvalidArgument, prompt || file || read_pipe
                                              ? "the prompt is empty; give some text with -p, -f or a pipe"
                                              : "no prompt; give one with -p TEXT, -f FILE or a pipe");
}

}  // namespace ebb::cli
