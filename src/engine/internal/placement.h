// Which unit of a model goes to which device: a pure function of sizes and limits, that opens nothing and asks nobody.
// Layers stay in order and together on a device where that is possible, filled so that the fullest device is as empty as
// it can be; where only a placement out of order fits, that one is taken; where none fits, the first layers go to the
// host. Called by planner.h.
// Invariant: a unit is on the host only if no placement of all units was found, or if so few layers were asked for.
// Source    spec/memory: several GPUs; exact budget before loading.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "engine/plan.h"

namespace ebb::engine {

/// KV of one conversation for layers that share a device, in whole pages.
struct KvBytes {
  std::size_t global_bytes = 0;
  std::size_t local_bytes = 0;
  std::size_t record_bytes = 0;  // what lets a window be taken back; always on the host
};

/// One way to keep KV. Both functions are pure; layers of one kind (global, local) are all alike to them.
struct KvChoice {
  std::string flags;  // how a user asks for it: "-ctk q8_0 -ctv q8_0"
  std::function<KvBytes(std::span<const std::size_t> layers, std::size_t tokens, std::size_t page_bytes)> kv;
  /// Activations of a step of `rows` tokens on one device, before rounding to pages.
  std::function<std::size_t(std::size_t rows, bool has_output, device::Kind kind)> scratch;
};

/// What a unit's weights commit, before rounding to pages.
struct UnitBytes {
  std::size_t on_device = 0;
  std::size_t on_host = 0;  // the rest stays in the file's mapping
};

struct LayerNeed {
  UnitBytes weights;
  bool global = false;
};

struct VisionNeed {
  UnitBytes weights;
  std::size_t scratch_bytes = 0;  // for the largest allowed picture
};

struct PlacementDevice {
  std::string name;
  std::size_t total_bytes = 0;
  std::size_t free_bytes = 0;   // by the device's own count
  std::size_t limit_bytes = 0;  // most that we may hold there
  std::size_t page_bytes = 1;
  device::Kind kind = device::Kind::Fake;
  bool banned = false;   // the user wants nothing there
  double share = 0;      // of the whole, as the user splits it; 0 without a split

  /// Weights stay in the mapping, records are kept here too.
  [[nodiscard]] bool is_host() const { return kind == device::Kind::Host; }
};

struct PlacementRequest {
  std::vector<PlacementDevice> devices;
  /// Memory beside the devices. With a device that is the host itself, units have no second place on it.
  std::size_t host_limit_bytes = std::numeric_limits<std::size_t>::max();
  std::size_t host_page_bytes = 1;
  std::vector<LayerNeed> layers;
  UnitBytes output;
  std::size_t embedding_bytes = 0;  // in the mapping, wherever the rest is
  std::optional<VisionNeed> vision;
  /// Host memory for the copies of a step, by where the first layer and the output are.
  std::function<std::size_t(std::size_t rows, device::Kind first_home, device::Kind output_home)> staging;
  std::vector<KvChoice> kv_choices;         // the wanted one first, then what may be advised
  std::optional<std::size_t> device_layers;  // so many on devices; none: as many as fit
  bool all_on_devices = false;               // or nothing at all
};

/// What is planned for: the part of a wish that may be changed when it does not fit.
struct PlacementLoad {
  std::size_t tokens = 0;  // of one chat
  std::size_t parallel = 1;
  std::size_t chunk_tokens = 512;
  std::size_t kv_choice_idx = 0;
};

/// Device of each unit; kOnHost for the host.
struct Assignment {
  std::vector<int> layers;
  int output = kOnHost;
  int vision = kOnHost;  // also when there is no tower

  [[nodiscard]] bool all_on_devices(bool has_vision) const;
};

/// Bytes of one place by kind, whole pages each.
struct PlaceBytes {
  std::size_t weights = 0;
  std::size_t vision = 0;
  std::size_t kv_global = 0;
  std::size_t kv_local = 0;
  std::size_t scratch = 0;
  std::size_t cache = 0;  // records

  [[nodiscard]] std::size_t sum() const { return weights + vision + kv_global + kv_local + scratch + cache; }
  [[nodiscard]] KindBytes kinds() const;  // without the zeros
};

struct Placement {
  bool fits = false;      // within every limit, and as many layers on devices as were asked for
  bool complete = false;  // fits, and nothing that was wanted on devices is on the host
  Assignment units;       // where all would be, had every device more room, when it does not fit
  std::vector<PlaceBytes> devices;
  PlaceBytes host;
};

/// Tokens may be any number. At least one device, one layer, one KV choice.
[[nodiscard]] Placement place(const PlacementRequest& request, const PlacementLoad& load);

/// Whether place() would be complete, for a fraction of its work; true is certain, a placement out of order may be missed.
[[nodiscard]] bool fits_complete(const PlacementRequest& request, const PlacementLoad& load);

}  // namespace ebb::engine
