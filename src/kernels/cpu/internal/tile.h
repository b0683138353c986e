// The innermost loops: a tile of kPanels x 16 rows by kTokens tokens over one chunk of columns, sums in registers.
// Order of summation per output, whatever the tile: blocks of 32 in rising order, one fma each on the running float32;
// inside a block integers, which are exact in any order. Float tiles: one fma a column, in rising order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/internal/unroll.h"

namespace ebb::kernels {
namespace {

struct TilePanels {
  const std::int32_t* pairs;  // [panel][cols / 2][16 rows] int16 pairs
  std::size_t pairs_stride;   // int32 between panels
  const float* scales;        // [panel][cols / 32][16 rows]
  std::size_t scales_stride;
};

struct TileRows {
  const std::byte* pairs;   // first token's int16 pairs at the chunk's first column
  const std::byte* scales;  // its block scales
  std::size_t stride;       // bytes between tokens
};

struct TileOut {
  float* y;  // first token, first row
  std::size_t stride;
  bool accumulate;  // y holds the sum over the chunks before
};

template <class Lanes, std::size_t kPanels, std::size_t kTokens>
struct TileSums {
  typename Lanes::Floats v[kTokens][kPanels];

  void begin(const TileOut& out) {
    EBB_UNROLL for (std::size_t t = 0; t < kTokens; ++t) {
      EBB_UNROLL for (std::size_t i = 0; i < kPanels; ++i) {
        v[t][i] = out.accumulate ? Lanes::load(out.y + t * out.stride + i * 16) : Lanes::zero_floats();
      }
    }
  }
  void end(const TileOut& out) const {
    EBB_UNROLL for (std::size_t t = 0; t < kTokens; ++t) {
      EBB_UNROLL for (std::size_t i = 0; i < kPanels; ++i) Lanes::store(out.y + t * out.stride + i * 16, v[t][i]);
    }
  }
};

template <class T>
T read_at(const std::byte* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

template <class Lanes, std::size_t kPanels, std::size_t kTokens>
void integer_tile(const TilePanels& panels, const TileRows& rows, std::size_t block_count, const TileOut& out) {
  using Ints = typename Lanes::Ints;
  using Floats = typename Lanes::Floats;
  TileSums<Lanes, kPanels, kTokens> sums;
  sums.begin(out);
  for (std::size_t b = 0; b < block_count; ++b) {
    Ints acc[kTokens][kPanels];
    EBB_UNROLL for (std::size_t t = 0; t < kTokens; ++t) {
      EBB_UNROLL for (std::size_t i = 0; i < kPanels; ++i) acc[t][i] = Lanes::zero();
    }
    const std::int32_t* w_pairs = panels.pairs + b * 16 * 16;
    const std::byte* x_pairs = rows.pairs + b * 64;
    for (std::size_t p = 0; p < 16; ++p) {
      Ints w[kPanels];
      EBB_UNROLL for (std::size_t i = 0; i < kPanels; ++i) w[i] = Lanes::load(w_pairs + i * panels.pairs_stride + p * 16);
      EBB_UNROLL for (std::size_t t = 0; t < kTokens; ++t) {
        const Ints x = Lanes::broadcast(read_at<std::int32_t>(x_pairs + t * rows.stride + p * 4));
        EBB_UNROLL for (std::size_t i = 0; i < kPanels; ++i) acc[t][i] = Lanes::dot(acc[t][i], w[i], x);
      }
    }
    Floats w_scales[kPanels];
    EBB_UNROLL for (std::size_t i = 0; i < kPanels; ++i) {
      w_scales[i] = Lanes::load(panels.scales + i * panels.scales_stride + b * 16);
    }
    EBB_UNROLL for (std::size_t t = 0; t < kTokens; ++t) {
      const Floats x_scale = Lanes::broadcast(read_at<float>(rows.scales + t * rows.stride + b * 4));
      EBB_UNROLL for (std::size_t i = 0; i < kPanels; ++i) {
        sums.v[t][i] = Lanes::fma(Lanes::to_floats(acc[t][i]), Lanes::mul(w_scales[i], x_scale), sums.v[t][i]);
      }
    }
  }
  sums.end(out);
}

struct FloatTile {
  const float* w;            // [panel][cols][16 rows]
  std::size_t w_stride;      // floats between panels
  const std::byte* x;        // first token's float at the first column
  std::size_t x_stride;      // bytes between tokens
  std::size_t cols;
};

template <class Lanes, std::size_t kPanels, std::size_t kTokens>
void float_tile(const FloatTile& in, const TileOut& out) {
  using Floats = typename Lanes::Floats;
  TileSums<Lanes, kPanels, kTokens> sums;
  sums.begin(out);
  for (std::size_t c = 0; c < in.cols; ++c) {
    Floats w[kPanels];
    EBB_UNROLL for (std::size_t i = 0; i < kPanels; ++i) w[i] = Lanes::load(in.w + i * in.w_stride + c * 16);
    EBB_UNROLL for (std::size_t t = 0; t < kTokens; ++t) {
      const Floats x = Lanes::broadcast(read_at<float>(in.x + t * in.x_stride + c * 4));
      EBB_UNROLL for (std::size_t i = 0; i < kPanels; ++i) sums.v[t][i] = Lanes::fma(w[i], x, sums.v[t][i]);
    }
  }
  sums.end(out);
}

/// Calls visit(token_idx, tile) over `token_count` tokens, the widest tiles first; tile() has the width as its constant.
template <std::size_t kWidth>
struct TileWidth {
  static constexpr std::size_t kTokens = kWidth;
};

template <std::size_t kWidest, class Visit>
void for_each_tile(std::size_t token_count, Visit visit) {
  std::size_t t = 0;
  for (; t + kWidest <= token_count; t += kWidest) visit(t, TileWidth<kWidest>{});
  if constexpr (kWidest > 8) {
    for (; t + 8 <= token_count; t += 8) visit(t, TileWidth<8>{});
  }
  if constexpr (kWidest > 4) {
    for (; t + 4 <= token_count; t += 4) visit(t, TileWidth<4>{});
  }
  for (; t + 2 <= token_count; t += 2) visit(t, TileWidth<2>{});
  for (; t < token_count; ++t) visit(t, TileWidth<1>{});
}

}  // namespace
}  // namespace ebb::kernels
