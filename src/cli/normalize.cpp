#include "cli/normalize.h"

#include <algorithm>

#include "cli/settings.h"

namespace ebb::cli {

namespace {

// "-n128" and "-n-1", but not "-ngl": letters after a single dash are a spelling of their own.
const Setting* attached_number(Command command, const std::string& word) {
  if (word.size() < 3 || word[1] == '-') return nullptr;
  const bool number =
      std::all_of(word.begin() + 2, word.end(), [](char c) { return (c >= '0' && c <= '9') || c == '-'; });
  const Setting* setting = number ? find_setting(command, word.substr(0, 2)) : nullptr;
  return setting != nullptr && !setting->value.empty() ? setting : nullptr;
}

}  // namespace

std::vector<std::string> normalize_flags(std::span<const std::string> words, Command command) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      result.insert(result.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    if (word.size() < 2 || word[0] != '-') {
      result.push_back(word);
      continue;
    }
    if (const Setting* setting = attached_number(command, word)) {
      result.push_back("--" + std::string(setting->name));
      result.push_back(word.substr(2));
      continue;
    }
    const std::size_t equals = word.find('=');
    const Setting* setting = find_setting(command, word.substr(0, equals));
    if (setting == nullptr) {
      result.push_back(word[1] == '-' ? word : "-" + word);
      continue;
    }
    const std::string flag = "--" + std::string(setting->name);
    if (setting->value.empty()) {
      result.push_back(equals == std::string::npos ? flag : flag + word.substr(equals));
      continue;
    }
    result.push_back(flag);
    if (equals != std::string::npos) {
      result.push_back(word.substr(equals + 1));
    } else if (i + 1 < words.size()) {
      result.push_back(words[++i]);
    }
  }
  return result;
}

}  // namespace ebb::cli
