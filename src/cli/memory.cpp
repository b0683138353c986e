// `ebb memory`: what this machine's devices hold; with a model, what it holds once it is open.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/memory_table.h"
#include "cli/open_model.h"
#include "cli/terminal.h"
#include "engine/status_json.h"

namespace ebb::cli {

namespace {

constexpr auto kBetweenLooks = std::chrono::seconds(1);

Result<engine::MemoryStatus> machine_status(const Options& options) {
  EBB_TRY_ASSIGN(const std::vector<engine::DeviceListing> listings,
                 engine::list_devices(options.engine.devices, options.engine.fake_page_bytes));
  engine::MemoryStatus status;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  status.time_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  for (const engine::DeviceListing& listing : listings) {
    engine::DeviceStatus device;
    device.index = status.devices.size();
    device.name = listing.name;
    device.backend = listing.backend;
    device.total_bytes = device.limit_bytes = listing.total_bytes;
    device.free_bytes = listing.free_bytes;
    device.others_bytes = listing.total_bytes - listing.free_bytes;
    status.devices.push_back(std::move(device));
  }
  return status;
}

Status show(const engine::MemoryStatus& status, const Options& options) {
  if (options.json) return write_output(engine::to_json(status) + "\n");
  if (!options.watch) return write_output(memory_table(status, stdout_has_colours()));
  if (!stdout_is_terminal()) return write_output(memory_line(status) + "\n");
  constexpr std::string_view kHomeAndClear = "\033[H\033[J";
  return write_output(fmt::format("{}{}\nCtrl-C leaves\n", kHomeAndClear, memory_table(status, stdout_has_colours())));
}

}  // namespace

Result<int> run_memory(const Options& options) {
  std::unique_ptr<engine::Engine> model;
  if (!options.model.empty()) {
    EBB_TRY_ASSIGN(model, open_model(options));
  } else if (!options.json && options.verbosity >= 1) {
    note("the devices of this machine; -m opens a model first and shows what it holds");
  }
  do {
    if (model != nullptr) {
      EBB_TRY(show(model->memory(), options));
    } else {
      EBB_TRY_ASSIGN(const engine::MemoryStatus status, machine_status(options));
      EBB_TRY(show(status, options));
    }
  } while (options.watch && pause(kBetweenLooks));
  return kExitDone;
}

}  // namespace ebb::cli
