// What rows of the flag table do with their text: parse it strictly and put it into one field.
// Private to the files of the table (settings_*.cpp).
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/options.h"
#include "cli/parse_value.h"
#include "cli/settings.h"

namespace ebb::cli {

/// The rows about the model and how it runs, about memory, and all others, in the order help shows them.
[[nodiscard]] std::vector<Setting> model_settings();
[[nodiscard]] std::vector<Setting> memory_settings();
[[nodiscard]] std::vector<Setting> answer_settings();

using Text = std::string_view;

inline constexpr std::int64_t kMaxThreads = 1024;
inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;
inline constexpr std::int64_t kMaxLayers = 10'000;
inline constexpr std::int64_t kMaxDevices = 64;
inline constexpr std::int64_t kMaxChats = 1024;
inline constexpr std::int64_t kMaxMebibytes = std::int64_t{1} << 30;
inline constexpr float kMaxShare = 1e9F;
inline constexpr std::int64_t kMaxTurns = 1'000'000;
inline constexpr std::int64_t kMaxSeconds = 31'536'000;  // a year
inline constexpr float kMaxPenalty = 1000.0F;

constexpr std::uint32_t bit(Command command) { return static_cast<std::uint32_t>(command); }
inline constexpr std::uint32_t kAnswers = bit(Command::Run) | bit(Command::Chat);
inline constexpr std::uint32_t kMeasuresMemory = bit(Command::BenchMemory) | bit(Command::Soak);
inline constexpr std::uint32_t kComputes = kAnswers | bit(Command::Perplexity) | bit(Command::BenchSpeed) |
                                           bit(Command::Memory) | bit(Command::Plan) | kMeasuresMemory;
inline constexpr std::uint32_t kOpensModel = kComputes | bit(Command::Tokenize) | bit(Command::Doctor);
inline constexpr std::uint32_t kEvery = kOpensModel | bit(Command::ListDevices);

template <typename T>
Status set_integer(T& target, Text text, std::int64_t lowest, std::int64_t highest) {
  EBB_TRY_ASSIGN(const std::int64_t value, parse_integer(text, lowest, highest));
  target = static_cast<T>(value);
  return {};
}
inline Status set_real(float& target, Text text, float lowest, float highest) {
  EBB_TRY_ASSIGN(target, parse_real(text, lowest, highest));
  return {};
}
inline Status set_switch(bool& target, Text text) {
  EBB_TRY_ASSIGN(target, parse_switch(text));
  return {};
}
template <typename T>
Status set_text(T& target, Text text) {
  target = std::string(text);
  return {};
}
inline Status set_word(std::string& target, Text text, std::initializer_list<Text> words) {
  std::string allowed;
  for (const Text word : words) {
    if (text == word) return set_text(target, text);
    allowed += (allowed.empty() ? "" : ", ") + std::string(word);
  }
  return fail(ErrorCode::InvalidArgument, "use one of: " + allowed);
}

}  // namespace ebb::cli
