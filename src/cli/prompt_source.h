// Where a command's text comes from: -p, then -f, then a pipe, joined by a blank line.
// Called by run, tokenize and perplexity.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"

namespace ebb::cli {

/// Bytes of a file; "-" is standard input.
/// Errors   NotFound, Io; InvalidArgument when there is no end to it; Cancelled by Ctrl-C.
[[nodiscard]] Result<std::string> read_text(const std::string& file);

/// Whether standard input is a pipe or a file somebody filled, not a terminal or /dev/null.
[[nodiscard]] bool input_is_piped();

/// The prompt of `ebb run`. One newline at the end of a file or pipe is dropped, since `echo` adds it.
/// A pipe beside -p or -f that stays silent for three seconds is left alone, with a note: many programs start others
/// with an open pipe that nobody writes to. Errors   InvalidArgument when there is no prompt or an empty one; NotFound,
/// Io.
[[nodiscard]] Result<std::string> gather_prompt(const std::optional<std::string>& prompt,
                                                const std::optional<std::string>& file);

}  // namespace ebb::cli
