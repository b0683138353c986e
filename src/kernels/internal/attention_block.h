// What the attention kernels of cpu/vector/ share with the code that drives them (cpu/attention.cpp), and the order of
// the sums (docs/decisions/0007-attention-order.md): tiles and segments start at absolute multiples of their length.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"

namespace ebb::kernels {

constexpr std::size_t kTileKeys = 64;       // keys converted to float32 at once
constexpr std::size_t kSegmentKeys = 256;   // keys summed up before the sums are merged
constexpr std::size_t kMaxQueryRows = 264;  // query rows (positions x heads of the group) that share a converted tile
constexpr std::size_t kProductRowsLcm =
    12;                                     // scratch is padded to this many query rows: a multiple of any level's tile
constexpr std::size_t kMaxHeadDim = 256;    // and rows of it are this far apart: addresses known when compiling
constexpr std::size_t kColumnPadding = 32;  // columns are worked on in steps of this
static_assert(kSegmentKeys % kTileKeys == 0 && kMaxQueryRows % kProductRowsLcm == 0);

/// Query rows of one kv head: row r is head r % group at position first_pos + r / group. All scratch is 64-byte
/// aligned.
struct AttentionBlock {
  std::size_t first_pos = 0;
  std::size_t positions = 0;
  std::size_t group = 0;
  std::size_t rows = 0;  // positions * group; a member function would be compiled into every level and shared
  std::size_t head_dim = 0;
  std::size_t window = 0;  // 0 = all
  KvTypes types;
  float* queries = nullptr;  // [rows][kMaxHeadDim], times scale and log2 e
  float* keys = nullptr;     // [panel of keys][head_dim][keys of a panel]
  float* values = nullptr;   // [panel of columns][kTileKeys][columns of a panel]
  float* scores = nullptr;   // [rows][kTileKeys]
};

/// Running maximum, sum and weighted values of the block's rows. `out` of a row has a meaning once it has seen a key.
struct AttentionState {
  float* out = nullptr;  // [rows][kMaxHeadDim]
  float* max = nullptr;  // [rows], in units of log2
  float* sum = nullptr;  // [rows][16], lane by lane
};

/// Keys first_key .. first_key + kTileKeys - 1. For a key that no query of the block sees: any row, its value is not
/// used.
struct AttentionTile {
  std::size_t first_key = 0;
  const std::byte* k[kTileKeys] = {};
  const std::byte* v[kTileKeys] = {};
};

}  // namespace ebb::kernels
