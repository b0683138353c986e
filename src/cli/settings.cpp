#include "cli/settings.h"

#include <algorithm>

#include "cli/internal/setters.h"

namespace ebb::cli {

namespace {

const std::vector<Setting>& table() {
  static const std::vector<Setting> rows = [] {
    std::vector<Setting> all = model_settings();
    for (const std::vector<Setting>& others : {memory_settings(), answer_settings()}) {
      all.insert(all.end(), others.begin(), others.end());
    }
    return all;
  }();
  return rows;
}

std::string transformed(std::string_view name, char (*letter)(char)) {
  std::string result(name);
  std::transform(result.begin(), result.end(), result.begin(), letter);
  return result;
}

}  // namespace

std::span<const Setting> settings() { return table(); }

bool belongs_to(const Setting& setting, Command command) { return (setting.commands & bit(command)) != 0; }

const Setting* find_setting(Command command, std::string_view spelling) {
  for (const Setting& setting : table()) {
    if (!belongs_to(setting, command)) continue;
    const bool by_name = spelling.starts_with("--") && spelling.substr(2) == setting.name;
    if (by_name || std::ranges::find(setting.aliases, spelling) != setting.aliases.end()) return &setting;
  }
  return nullptr;
}

std::vector<std::string> spellings(Command command) {
  std::vector<std::string> all;
  for (const Setting& setting : table()) {
    if (!belongs_to(setting, command)) continue;
    all.push_back("--" + std::string(setting.name));
    all.insert(all.end(), setting.aliases.begin(), setting.aliases.end());
  }
  return all;
}

std::string environment_name(const Setting& setting) {
  return "EBB_" + transformed(setting.name, [](char c) {
           return c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
         });
}

std::string config_key(const Setting& setting) {
  if (!setting.place.key.empty()) return std::string(setting.place.key);
  return transformed(setting.name, [](char c) { return c == '-' ? '_' : c; });
}

}  // namespace ebb::cli
