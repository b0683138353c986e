// The half of WeightStore that moves units between pools.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "weights/internal/store_state.h"

namespace ebb::weights {
namespace {

// A driver stages what it reads from a mapped file; a bounded piece bounds that and lets a lost device end the copy early.
constexpr std::size_t kCopyBytes = std::size_t{16} << 20;

float element(const format::TensorEntry& entry, std::size_t idx) {
  const std::byte* at = entry.data + idx * dtype_info(entry.dtype).block_bytes;
  std::uint16_t half = 0;
  float value = 0;
  switch (entry.dtype) {
    case DType::F16:
      std::memcpy(&half, at, sizeof half);
      return f16_to_float(half);
    case DType::BF16:
      std::memcpy(&half, at, sizeof half);
      return bf16_to_float(half);
    default:
      EBB_CHECK(entry.dtype == DType::F32, "norm vector {} was not checked", entry.name);
      std::memcpy(&value, at, sizeof value);
      return value;
  }
}

std::vector<float> folded_norm(const format::TensorEntry& entry, float folded) {
  const TensorView view = entry.view();
  std::vector<float> values(view.rows * view.cols);
  for (std::size_t idx = 0; idx < values.size(); ++idx) values[idx] = element(entry, idx) + folded;
  return values;
}

Status copy_in(device::Device& device, std::byte* target, const void* source, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(source);
  for (std::size_t done = 0; done < bytes; done += kCopyBytes) {
    EBB_TRY(device.copy(device::Stream::Copy, target + done, from + done, std::min(kCopyBytes, bytes - done)));
  }
  return {};
}

Status fill(device::Device& device, const UnitLayout& layout, std::byte* data, float folded) {
  std::vector<std::vector<float>> norms;  // alive until the copies are done
  Status outcome;
  for (const UnitPiece& piece : layout.pieces) {
    if (!piece.offset || !outcome) continue;
    if (piece.is_norm) {
      const std::vector<float>& norm = norms.emplace_back(folded_norm(*piece.entry, folded));
      outcome = copy_in(device, data + *piece.offset, norm.data(), norm.size() * sizeof(float));
    } else {
      outcome = copy_in(device, data + *piece.offset, piece.entry->data, piece.entry->bytes);
    }
  }
  // After a failed copy too: those before it still read the norms.
  Result<device::Fence> fence = device.fence(device::Stream::Copy);
  Status waited = fence ? device.wait(*fence) : Status(tl::unexpected<Error>(std::move(fence).error()));
  return outcome ? waited : outcome;
}

Result<memory::Region*> region_on(PlacedUnit& unit, memory::PagePool& pool, std::size_t bytes) {
  const auto found = std::ranges::find(unit.regions, &pool, &UnitRegion::pool);
  if (found != unit.regions.end()) return &found->region;
  // Host pages are small and shared out of a pool; a card's driver is asked once for the whole unit.
  const auto backing = pool.device().kind() == device::Kind::Host ? memory::Backing::Pages : memory::Backing::Whole;
  EBB_TRY_ASSIGN(memory::Region region,
                 memory::Region::reserve(pool, memory::Tag::Weights, memory::kEngineOwner, bytes, backing));
  return &unit.regions.emplace_back(UnitRegion{&pool, std::move(region)}).region;
}

UnitId unit_of(Part part, std::size_t layer_idx) {
  if (part == Part::Embedding) return kEmbeddingUnit;
  return part == Part::Head || part == Part::OutputNorm ? kOutputUnit : layer_unit(layer_idx);
}

}  // namespace

std::size_t WeightStore::unit_bytes(UnitId unit, device::Kind kind) const {
  return lay_out_unit(*state_->directory, unit, kind).bytes;
}

Status WeightStore::place(UnitId unit, memory::PagePool& pool) {
  EBB_CHECK(unit.kind != UnitId::Kind::Embedding || &pool == &state_->host, "the embedding is read on the host");
  PlacedUnit& placed = state_->units[unit];
  if (placed.pool == &pool) return {};
  const UnitLayout layout = lay_out_unit(*state_->directory, unit, pool.device().kind());
  if (layout.bytes != 0) {
    EBB_TRY_ASSIGN(memory::Region * region, region_on(placed, pool, layout.bytes));
    EBB_TRY(region->resize(layout.bytes));
    const float folded = is_gguf() ? 0.0F : 1.0F;  // the GGUF converter has added it already
    if (Status filled = fill(pool.device(), layout, region->data(), folded); !filled) {
      EBB_CHECK(region->resize(0).has_value(), "shrinking fails");
      return filled;
    }
  }
  evict(unit);
  placed.pool = &pool;
  return {};
}

void WeightStore::evict(UnitId unit) {
  PlacedUnit& placed = state_->units[unit];
  const auto found = std::ranges::find(placed.regions, placed.pool, &UnitRegion::pool);
  if (found != placed.regions.end()) EBB_CHECK(found->region.resize(0).has_value(), "shrinking fails");
  placed.pool = nullptr;
}

memory::PagePool* WeightStore::place_of(UnitId unit) const {
  const auto found = state_->units.find(unit);
  return found == state_->units.end() ? nullptr : found->second.pool;
}

TensorView WeightStore::matrix(Part part, std::size_t layer_idx) const {
  const UnitId unit = unit_of(part, layer_idx);
  memory::PagePool* pool = place_of(unit);
  EBB_CHECK(pool != nullptr, "the unit of part {} in layer {} is nowhere", static_cast<int>(part), layer_idx);
  const PlacedUnit& placed = state_->units.at(unit);
  const UnitLayout layout = lay_out_unit(*state_->directory, unit, pool->device().kind());
  const auto piece = std::ranges::find(layout.pieces, part, &UnitPiece::part);
  EBB_CHECK(piece != layout.pieces.end(), "part {} of layer {} was not checked", static_cast<int>(part), layer_idx);
  TensorView view = piece->entry->view();
  if (piece->offset) view.data = std::ranges::find(placed.regions, pool, &UnitRegion::pool)->region.data() + *piece->offset;
  return view;
}

const float* WeightStore::norm(Part part, std::size_t layer_idx) const {
  EBB_CHECK(is_norm(part), "part {} is a matrix", static_cast<int>(part));
  return reinterpret_cast<const float*>(matrix(part, layer_idx).data);
}

}  // namespace ebb::weights
