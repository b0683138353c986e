// Where the tensors of a unit lie in its region, from headers alone: the size that is planned and the copy that is made
// come from this one table.
// Matrices keep the file's bytes at 64-byte alignment. On the host those that are aligned stay in the file's mapping and
// take no room. Norm vectors are float32.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "device/device.h"
#include "format/model_directory.h"
#include "weights/part.h"
#include "weights/unit.h"

namespace ebb::weights {

struct UnitPiece {
  Part part = Part::Embedding;
  const format::TensorEntry* entry = nullptr;
  bool is_norm = false;
  std::optional<std::size_t> offset;  // in the unit's region; none: read in the mapping
};

struct UnitLayout {
  std::vector<UnitPiece> pieces;
  std::size_t bytes = 0;
};

/// The tensor of a part under any of its names; null when absent.
[[nodiscard]] const format::TensorEntry* find_tensor(const format::ModelDirectory& directory, Part part, std::size_t layer_idx);

/// Absent tensors are left out. The embedding is read on the host, so its layout is the host's for every kind.
[[nodiscard]] UnitLayout lay_out_unit(const format::ModelDirectory& directory, UnitId unit, device::Kind kind);

}  // namespace ebb::weights
