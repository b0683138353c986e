// What a WeightStore owns, for the files of this folder.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "format/model_directory.h"
#include "memory/ledger.h"
#include "memory/page_pool.h"
#include "memory/region.h"
#include "weights/internal/unit_layout.h"
#include "weights/weight_store.h"

namespace ebb::weights {

/// The unit's addresses on one pool; kept when it leaves, so that it comes back to them.
struct UnitRegion {
  memory::PagePool* pool = nullptr;
  memory::Region region;
};

struct PlacedUnit {
  std::vector<UnitRegion> regions;   // one a pool that it needed bytes on
  memory::PagePool* pool = nullptr;  // where it is now; null: nowhere
};

struct WeightStore::State {
  State(std::filesystem::path p, memory::PagePool& pages) : path(std::move(p)), host(pages) {}

  std::filesystem::path path;
  memory::PagePool& host;
  std::unique_ptr<format::ModelDirectory> directory;
  memory::HostLease mapped;  // the file's bytes, as host memory
  std::map<UnitId, PlacedUnit> units;
};

[[nodiscard]] constexpr bool is_norm_type(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

}  // namespace ebb::weights
