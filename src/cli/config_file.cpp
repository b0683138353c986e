#include "cli/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "cli/suggest.h"

namespace ebb::cli {

namespace {

std::size_t line_of(const YAML::Node& node) { return static_cast<std::size_t>(node.Mark().line + 1); }

tl::unexpected<Error> fault(const std::filesystem::path& path, std::size_t line, std::string_view what) {
  return fail(ErrorCode::InvalidArgument, fmt::format("{}, line {}: {}", path.string(), line, what));
}

std::vector<std::string> known_keys() {
  std::vector<std::string> keys;
  for (const Setting& setting : settings()) {
    if (setting.lasting) keys.push_back(config_key(setting));
  }
  return keys;
}

const Setting* find_key(std::string_view key) {
  for (const Setting& setting : settings()) {
    if (setting.lasting && config_key(setting) == key) return &setting;
  }
  return nullptr;
}

Result<ConfigEntry> read_entry(const std::filesystem::path& path, const YAML::Node& key_node, const YAML::Node& value) {
  const std::size_t line = line_of(key_node);
  if (!key_node.IsScalar()) return fault(path, line, "a key must be a word");
  const std::string key = key_node.Scalar();
  ConfigEntry entry{find_key(key), {}, line};
  if (entry.setting == nullptr) {
    const std::vector<std::string> keys = known_keys();
    return fault(
        path, line,
        fmt::format("unknown key '{}'{}; known keys: {}", key, did_you_mean(key, keys), fmt::join(keys, ", ")));
  }
  const bool list = value.IsSequence() && entry.setting->repeatable;
  if (!list && !value.IsScalar()) {
    return fault(
        path, line,
        fmt::format("{}: {}; use {}", key, value.IsNull() ? "has no value" : "a list or map is not a value here",
                    entry.setting->value.empty() ? "true or false" : "one " + std::string(entry.setting->value)));
  }
  if (list) {
    for (const YAML::Node& item : value) {
      if (!item.IsScalar()) return fault(path, line_of(item), fmt::format("{}: each item must be a text", key));
      entry.values.push_back(item.Scalar());
    }
  } else {
    entry.values.push_back(value.Scalar());
  }
  Options scratch;
  for (const std::string& text : entry.values) {
    if (const Status status = entry.setting->apply(scratch, text); !status) {
      return fault(path, line, fmt::format("{}: '{}': {}", key, text, status.error().message));
    }
  }
  return entry;
}

Result<std::vector<ConfigEntry>> read_map(const std::filesystem::path& path, const YAML::Node& root) {
  std::vector<ConfigEntry> entries;
  if (root.IsNull()) return entries;
  if (!root.IsMap()) return fault(path, line_of(root), "expected lines of the form `key: value`");
  for (const auto& item : root) {
    EBB_TRY_ASSIGN(ConfigEntry entry, read_entry(path, item.first, item.second));
    const auto same = std::ranges::find(entries, entry.setting, &ConfigEntry::setting);
    if (same != entries.end()) {
      return fault(path, entry.line,
                   fmt::format("{} is already set in line {}", config_key(*entry.setting), same->line));
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

Result<std::vector<ConfigEntry>> read_config(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    std::error_code ignored;
    const bool there = std::filesystem::exists(path, ignored);
    if (there && std::filesystem::is_regular_file(path, ignored) && std::filesystem::file_size(path, ignored) == 0) {
      return std::vector<ConfigEntry>{};
    }
    return fail(
        there ? ErrorCode::Io : ErrorCode::NotFound,
        fmt::format("{}: {}", path.string(), there ? "cannot be read as a settings file" : "no such settings file"));
  }
  try {
    return read_map(path, YAML::Load(text.str()));
  } catch (const YAML::Exception& error) {
    return fault(path, error.mark.is_null() ? 1 : static_cast<std::size_t>(error.mark.line + 1),
                 "not YAML: " + error.msg);
  }
}

}  // namespace ebb::cli
