#include "cli/model_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/suggest.h"

namespace ebb::cli {

namespace {

namespace fs = std::filesystem;

fs::path folder_from(const Environment& environment, const char* variable, const char* below_home) {
  const std::string base = environment(variable).value_or("");
  if (!base.empty()) return fs::path(base) / "ebb";
  return fs::path(environment("HOME").value_or(".")) / below_home / "ebb";
}

std::vector<std::string> names_in(const fs::path& models) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator item(models, error), end; !error && item != end; item.increment(error)) {
    std::error_code ignored;
    if (item->path().extension() == ".gguf") names.push_back(item->path().stem().string());
    if (fs::exists(item->path() / "config.json", ignored)) names.push_back(item->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string list_of(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

fs::path cache_folder(const Environment& environment) {
  const std::string named = environment("EBB_CACHE").value_or("");
  return named.empty() ? folder_from(environment, "XDG_CACHE_HOME", ".cache") : fs::path(named);
}

fs::path state_folder(const Environment& environment) {
  return folder_from(environment, "XDG_STATE_HOME", ".local/state");
}

fs::path expand_home(const std::string& text, const Environment& environment) {
  const std::string home = environment("HOME").value_or("");
  if (text.starts_with("~/") && !home.empty()) return fs::path(home) / text.substr(2);
  return text;
}

Result<fs::path> find_model(const std::string& text, const Environment& environment) {
  const fs::path models = cache_folder(environment) / "models";
  if (text.empty()) {
    return fail(ErrorCode::InvalidArgument, fmt::format("no model given; use -m FILE, or -m NAME for one in {} (there: "
                                                        "{}), or set EBB_MODEL, or `model:` in config.yaml",
                                                        models.string(), list_of(names_in(models))));
  }
  fs::path path = expand_home(text, environment);
  std::error_code ignored;
  if (fs::exists(path, ignored)) return path;
  if (text.find('/') != std::string::npos) {
    return fail(ErrorCode::NotFound, fmt::format("{}: no such file or folder; check the path", path.string()));
  }
  for (const fs::path& candidate : {models / text, models / (text + ".gguf")}) {
    if (fs::exists(candidate, ignored)) return candidate;
  }
  const std::vector<std::string> names = names_in(models);
  return fail(ErrorCode::NotFound,
              fmt::format("{}: no such file or folder here, and no model of that name in {} (there: {}){}", text,
                          models.string(), list_of(names), did_you_mean(text, names)));
}

}  // namespace ebb::cli
