// `ebb doctor`: what this machine has, what Ebb found, and what to do about each fault.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/model_path.h"
#include "cli/open_model.h"
#include "cli/settings.h"
#include "cli/suggest.h"
#include "cli/terminal.h"

extern char** environ;  // POSIX names it in no header

namespace ebb::cli {

namespace {

class Findings {
 public:
  void fact(std::string_view name, std::string_view text) { add("   ", name, text); }
  void advice(std::string_view name, std::string_view text) { add(" ! ", name, text); }
  void fault(std::string_view name, std::string_view text) {
    add("!! ", name, text);
    ++faults_;
  }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] int faults() const { return faults_; }

 private:
  void add(std::string_view mark, std::string_view name, std::string_view text) {
    text_ += fmt::format("{}{:<14}{}\n", mark, name, text);
  }
  std::string text_;
  int faults_ = 0;
};

void examine_machine(const Machine& machine, const Options& options, Findings& findings) {
  findings.fact("processor", machine.processor.empty() ? "unknown" : machine.processor);
  findings.fact("instructions", machine.vector_level.empty() ? "unknown" : machine.vector_level);
  if (!machine.has_avx2) findings.advice("instructions", "no AVX2: the portable code runs, several times slower");
  findings.fact("cores",
                fmt::format("{} usable, {} physical in the machine", machine.logical_cores, machine.physical_cores));
  if (machine.cpu_limit > 0 && machine.cpu_limit < static_cast<double>(machine.logical_cores)) {
    findings.advice("cores", fmt::format("this container gets the time of {:.1f} cores; try -t {}", machine.cpu_limit,
                                         std::max(1, static_cast<int>(machine.cpu_limit))));
  }
  if (options.engine.threads > static_cast<int>(machine.logical_cores)) {
    findings.advice("threads", fmt::format("{} threads on {} cores wait for each other; use -t {} or fewer",
                                           options.engine.threads, machine.logical_cores, machine.logical_cores));
  }
  findings.fact("memory", fmt::format("{} available of {}", format_bytes(machine.available_bytes),
                                      format_bytes(machine.memory_bytes)));
  if (machine.memory_limit_bytes > 0 && machine.memory_limit_bytes < machine.memory_bytes) {
    findings.advice("memory", fmt::format("this container may use {}", format_bytes(machine.memory_limit_bytes)));
  }
  findings.fact("pages", fmt::format("{}; transparent huge pages: {}", format_bytes(machine.page_bytes),
                                     machine.huge_pages.empty() ? "unknown" : machine.huge_pages));
}

void list_each(std::string_view name, const std::vector<engine::DeviceListing>& devices, Findings& findings) {
  for (const engine::DeviceListing& device : devices) {
    findings.fact(name, fmt::format("{} ({}), {} free of {}, pages of {}", device.name, device.backend,
                                    format_bytes(device.free_bytes), format_bytes(device.total_bytes),
                                    format_bytes(device.page_bytes)));
  }
}

/// The NVIDIA card that could be used beside the devices that are, or what keeps it from being one.
void examine_card(const Options& options, Findings& findings) {
  constexpr std::string_view kCard = "cuda";
  if (options.engine.devices.find(kCard) != std::string::npos) return;
  const auto cards = engine::list_devices(std::string(kCard), 0);
  if (cards) return list_each("card", *cards, findings);
  if (cards.error().code != ErrorCode::InvalidArgument) findings.fact("card", cards.error().message);  // else EBB_FAKE is set
}

void examine_devices(const Options& options, Findings& findings) {
  const auto devices = engine::list_devices(options.engine.devices, options.engine.fake_page_bytes);
  if (!devices) return findings.fault("devices", devices.error().message);
  list_each("device", *devices, findings);
  examine_card(options, findings);
}

void examine_model(const Options& options, const Machine& machine, Findings& findings) {
  Options quiet = options;
  quiet.verbosity = 0;
  const auto model = open_model(quiet);
  if (!model) return findings.fault("model", model.error().message);
  const engine::ModelInfo& info = (*model)->info();
  findings.fact("model", model_line(info));
  findings.fact("", fmt::format("{} file, context {} of {}, KV {}, {}", format_bytes(info.file_bytes), info.context,
                                info.trained_context, info.kv_type, info.arithmetic));
  const std::size_t limit = machine.memory_limit_bytes > 0
                                ? std::min(machine.memory_limit_bytes, machine.available_bytes)
                                : machine.available_bytes;
  if (info.file_bytes > limit) {
    findings.advice(
        "model",
        fmt::format("larger than the {} available: it will be read from disk again and again; use a smaller file or "
                    "free memory",
                    format_bytes(limit)));
  }
}

struct ForeignVariable {
  std::string_view name;
  std::string_view ours;
};
constexpr std::array<ForeignVariable, 10> kForeignVariables{
    {{"LLAMA_API_KEY", "no counterpart: Ebb serves nothing yet"},
     {"OLLAMA_HOST", "no counterpart: Ebb serves nothing yet"},
     {"OLLAMA_MODELS", "EBB_CACHE (models are in its folder models)"},
     {"OLLAMA_KEEP_ALIVE", "--sleep-idle-seconds, EBB_SLEEP_IDLE_SECONDS"},
     {"OLLAMA_CONTEXT_LENGTH", "-c, EBB_CTX_SIZE"},
     {"OLLAMA_KV_CACHE_TYPE", "-ctk, EBB_CACHE_TYPE_K"},
     {"OLLAMA_NUM_PARALLEL", "no counterpart: one conversation at a time"},
     {"OLLAMA_MAX_QUEUE", "no counterpart: Ebb serves nothing yet"},
     {"OLLAMA_ORIGINS", "no counterpart: Ebb serves nothing yet"},
     {"OLLAMA_GPU_OVERHEAD", "no counterpart: Ebb uses no GPU yet"}}};
constexpr std::array<std::string_view, 5> kOtherEbbVariables{"EBB_CACHE", "EBB_CONFIG", "EBB_FAKE", "EBB_BINARY",
                                                             "EBB_VECTORS_DIR"};

std::string counterpart(const std::string& flag_part) {
  for (const Setting& setting : settings()) {
    if (setting.lasting && environment_name(setting) == "EBB_" + flag_part) return environment_name(setting);
  }
  return "no counterpart of that name";
}

bool is_ours(const std::string& name) {
  for (const std::string_view other : kOtherEbbVariables) {
    if (name == other) return true;
  }
  for (const Setting& setting : settings()) {
    if (setting.lasting && environment_name(setting) == name) return true;
  }
  return false;
}

void examine_environment(Findings& findings) {
  std::vector<std::string> our_names(kOtherEbbVariables.begin(), kOtherEbbVariables.end());
  for (const Setting& setting : settings()) {
    if (setting.lasting) our_names.push_back(environment_name(setting));
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const std::string name = text.substr(0, text.find('='));
    if (name.starts_with("LLAMA_ARG_")) {
      findings.advice(name, "not obeyed; ours: " + counterpart(name.substr(10)));
    } else if (name.starts_with("EBB_") && !is_ours(name)) {
      findings.advice(name, "means nothing to Ebb" + did_you_mean(name, our_names));
    } else if (name.starts_with("EBB_")) {
      findings.fact("environment", text);
    }
    for (const ForeignVariable& foreign : kForeignVariables) {
      if (name == foreign.name) findings.advice(name, fmt::format("not obeyed; ours: {}", foreign.ours));
    }
  }
  const std::filesystem::path config = usual_config_file(process_environment());
  std::error_code ignored;
  findings.fact("settings",
                fmt::format("{}{}", config.string(), std::filesystem::exists(config, ignored) ? "" : " (not there)"));
}

}  // namespace

Result<int> run_doctor(const Options& options) {
  const Machine machine = inspect_machine();
  Findings findings;
  examine_machine(machine, options, findings);
  examine_devices(options, findings);
  examine_model(options, machine, findings);
  examine_environment(findings);
  EBB_TRY(write_output(findings.text()));
  EBB_TRY(write_output(findings.faults() == 0 ? "no faults found\n"
                                              : fmt::format("{} to mend: the lines marked !!\n", findings.faults())));
  return findings.faults() == 0 ? kExitDone : kExitFailed;
}

Result<int> run_list_devices(const Options& options) {
  EBB_TRY_ASSIGN(const std::vector<engine::DeviceListing> devices,
                 engine::list_devices(options.engine.devices, options.engine.fake_page_bytes));
  for (const engine::DeviceListing& device : devices) {
    EBB_TRY(write_output(fmt::format("{} ({}): {} free of {}, pages of {}\n", device.name, device.backend,
                                     format_bytes(device.free_bytes), format_bytes(device.total_bytes),
                                     format_bytes(device.page_bytes))));
  }
  return kExitDone;
}

}  // namespace ebb::cli
