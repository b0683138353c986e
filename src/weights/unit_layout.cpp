#include "weights/internal/unit_layout.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "weights/internal/tensor_names.h"

namespace ebb::weights {
namespace {

constexpr std::size_t kWeightAlignment = 64;  // bytes; a cache line, more than any element or vector load needs

constexpr std::array<Part, 1> kEmbeddingParts = {Part::Embedding};
constexpr std::array<Part, 2> kOutputParts = {Part::OutputNorm, Part::Head};
constexpr std::array<Part, 13> kLayerParts = {
    Part::AttnNorm, Part::AttnQNorm, Part::AttnKNorm,  Part::PostAttnNorm, Part::FfnNorm, Part::PostFfnNorm, Part::AttnQ,
    Part::AttnK,    Part::AttnV,     Part::AttnOutput, Part::FfnGate,      Part::FfnUp,   Part::FfnDown};

std::span<const Part> parts_of(UnitId::Kind kind) {
  switch (kind) {
    case UnitId::Kind::Embedding:
      return kEmbeddingParts;
    case UnitId::Kind::Output:
      return kOutputParts;
    case UnitId::Kind::Layer:
      return kLayerParts;
  }
  return {};
}

std::size_t element_alignment(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return 4;
    case DType::F16:
    case DType::BF16:
      return 2;
    default:
      return 1;  // blocks are read byte by byte
  }
}

bool is_aligned(const format::TensorEntry& entry) {
  return reinterpret_cast<std::uintptr_t>(entry.data) % element_alignment(entry.dtype) == 0;
}

}  // namespace

const format::TensorEntry* find_tensor(const format::ModelDirectory& directory, Part part, std::size_t layer_idx) {
  const bool gguf = directory.container() == format::Container::Gguf;
  for (const std::string& name : gguf ? gguf_names(part, layer_idx) : safetensors_names(part, layer_idx)) {
    if (const format::TensorEntry* entry = directory.find(name)) return entry;
  }
  return nullptr;
}

UnitLayout lay_out_unit(const format::ModelDirectory& directory, UnitId unit, device::Kind kind) {
  const bool on_host = kind == device::Kind::Host || unit.kind == UnitId::Kind::Embedding;
  UnitLayout layout;
  for (const Part part : parts_of(unit.kind)) {
    const format::TensorEntry* entry = find_tensor(directory, part, unit.layer_idx);
    if (entry == nullptr && part == Part::Head) entry = find_tensor(directory, Part::Embedding, 0);
    if (entry == nullptr) continue;
    UnitPiece piece{part, entry, is_norm(part), std::nullopt};
    if (piece.is_norm || !on_host || !is_aligned(*entry)) {
      const TensorView view = entry->view();
      piece.offset = layout.bytes;
      layout.bytes += round_up(piece.is_norm ? view.rows * view.cols * sizeof(float) : entry->bytes, kWeightAlignment);
    }
    layout.pieces.push_back(piece);
  }
  return layout;
}

}  // namespace ebb::weights
