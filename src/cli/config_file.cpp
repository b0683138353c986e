#include "cli/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "cli/suggest.h"

namespace ebb::cli {

namespace {

std::size_t line_of(const YAML::Node& node) { return static_cast<std::size_t>(node.Mark().line + 1); }

tl::unexpected<Error> fault(const std::filesystem::path& path, std::size_t line, std::string_view what) {
  return fail(ErrorCode::InvalidArgument, fmt::format("{}, line {}: {}", path.string(), line, what));
}

// Keys and blocks at the top when `section` is empty, else the keys of that block.
std::vector<std::string> known_keys(std::string_view section) {
  std::vector<std::string> keys;
  for (const Setting& setting : settings()) {
    if (!setting.lasting) continue;
    std::string key = setting.place.section == section ? config_key(setting)
                      : section.empty()                ? std::string(setting.place.section)
                                                       : "";
    if (!key.empty() && std::ranges::find(keys, key) == keys.end()) keys.push_back(std::move(key));
  }
  return keys;
}

bool is_section(std::string_view key) {
  return std::ranges::any_of(settings(), [&](const Setting& setting) { return setting.place.section == key; });
}

const Setting* find_key(std::string_view section, std::string_view key) {
  for (const Setting& setting : settings()) {
    if (setting.lasting && setting.place.section == section && config_key(setting) == key) return &setting;
  }
  return nullptr;
}

// "; it belongs into the block memory_management" when another section has the key.
std::string other_place(std::string_view section, std::string_view key) {
  for (const Setting& setting : settings()) {
    if (!setting.lasting || setting.place.section == section || config_key(setting) != key) continue;
    return setting.place.section.empty() ? "; it belongs to the top of the file"
                                         : fmt::format("; it belongs into the block {}", setting.place.section);
  }
  return "";
}

std::string allowed_form(const Setting& setting) {
  if (setting.value.empty()) return "true or false";
  return setting.place.list ? "one value, or a list of them" : "one " + std::string(setting.value);
}

// One file while its lines become entries.
class ConfigReader {
 public:
  explicit ConfigReader(const std::filesystem::path& path) : path_(path) {}

  Result<std::vector<ConfigEntry>> read(const YAML::Node& root) {
    if (root.IsNull()) return std::move(entries_);
    if (!root.IsMap()) return fault(path_, line_of(root), "expected lines of the form `key: value`");
    EBB_TRY(read_map("", root));
    return std::move(entries_);
  }

 private:
  Status read_map(const std::string& section, const YAML::Node& map) {
    std::vector<std::pair<std::string, std::size_t>> seen;  // with lines
    for (const auto& item : map) {
      const std::size_t line = line_of(item.first);
      if (!item.first.IsScalar()) return fault(path_, line, "a key must be a word");
      const std::string key = item.first.Scalar();
      const auto same = std::ranges::find(seen, key, &std::pair<std::string, std::size_t>::first);
      if (same != seen.end()) return fault(path_, line, fmt::format("{} is already set in line {}", key, same->second));
      seen.emplace_back(key, line);
      if (!section.empty() || !is_section(key)) {
        EBB_TRY(read_entry(section, key, line, item.second));
      } else if (item.second.IsMap()) {
        EBB_TRY(read_map(key, item.second));
      } else if (!item.second.IsNull()) {
        return fault(path_, line, fmt::format("{}: is a block; use indented lines of the form `key: value`", key));
      }
    }
    return {};
  }

  Status read_entry(const std::string& section, const std::string& key, std::size_t line, const YAML::Node& value) {
    ConfigEntry entry{find_key(section, key), {}, line};
    const std::string name = section.empty() ? key : section + "." + key;
    if (entry.setting == nullptr) {
      const std::vector<std::string> keys = known_keys(section);
      std::string hint = other_place(section, key);
      if (hint.empty()) hint = did_you_mean(key, keys);
      return fault(path_, line, fmt::format("unknown key '{}'{}; known keys: {}", name, hint, fmt::join(keys, ", ")));
    }
    EBB_TRY_ASSIGN(entry.values, values_of(*entry.setting, name, line, value));
    Options scratch;
    for (const std::string& text : entry.values) {
      if (const Status status = entry.setting->apply(scratch, text); !status) {
        return fault(path_, line, fmt::format("{}: '{}': {}", name, text, status.error().message));
      }
    }
    entries_.push_back(std::move(entry));
    return {};
  }

  // A list's items one by one when each adds, joined when they are one value.
  Result<std::vector<std::string>> values_of(const Setting& setting, const std::string& name, std::size_t line,
                                             const YAML::Node& value) const {
    if (value.IsScalar()) return std::vector<std::string>{value.Scalar()};
    const bool list = value.IsSequence() && value.size() > 0 && (setting.repeatable || setting.place.list);
    if (!list) {
      return fault(path_, line,
                   fmt::format("{}: {}; use {}", name,
                               value.IsNull()                            ? "has no value"
                               : value.IsSequence() && value.size() == 0 ? "an empty list says nothing"
                                                                         : "a list or map is not a value here",
                               allowed_form(setting)));
    }
    std::vector<std::string> items;
    for (const YAML::Node& item : value) {
      if (!item.IsScalar()) return fault(path_, line_of(item), fmt::format("{}: each item must be a text", name));
      items.push_back(item.Scalar());
    }
    if (setting.repeatable) return items;
    return std::vector<std::string>{fmt::format("{}", fmt::join(items, ","))};
  }

  const std::filesystem::path& path_;
  std::vector<ConfigEntry> entries_;
};

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
    return ConfigReader(path).read(YAML::Load(text.str()));
  } catch (const YAML::Exception& error) {
    return fault(path, error.mark.is_null() ? 1 : static_cast<std::size_t>(error.mark.line + 1),
                 "not YAML: " + error.msg);
  }
}

}  // namespace ebb::cli
