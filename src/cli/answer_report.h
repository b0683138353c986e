// An answer as JSON for programs, and as lines on stderr for people. Called by run.cpp and chat.cpp.
#pragma once

#include <string>

#include "engine/answer.h"
#include "engine/engine.h"

namespace ebb::cli {

/// The object of `ebb run --json`: one line, always valid UTF-8.
/// {model, text, tokens, finish_reason, stop_string, seed, usage, timings, log_probs}
[[nodiscard]] std::string answer_json(const engine::Answer& answer, const std::string& model_name);

/// "prompt 12 tokens, 690.1 tok/s; answer 16 tokens, 75.8 tok/s; seed 7"
[[nodiscard]] std::string timing_line(const engine::Answer& answer);

/// What a reader of the answer must know: cut by -n, by a full context (S2). Empty when it ended by itself.
[[nodiscard]] std::string ending_note(const engine::Answer& answer, const engine::ModelInfo& info);

/// A line for each token: its log-probability and the alternatives.
[[nodiscard]] std::string log_prob_table(const engine::Answer& answer);

/// Printable on one line: control characters and bytes that are not UTF-8 as escapes.
[[nodiscard]] std::string escaped(std::string_view bytes);

}  // namespace ebb::cli
