// One block of queries against tiles of 64 keys: scores, running softmax, weighted values.
// Scores and values are the same small product, C += A B with B in panels of a few vectors: scores with B = keys turned
// (keys of a panel side by side), values with B = values as they are. Each element of C is one chain of multiply-adds
// over the inner index in rising order, whatever rows it shares a tile with; that makes results independent of
// batching.
#include "kernels/cpu/vector/kv_row.h"
#include "kernels/cpu/vector/product.h"
#include "kernels/internal/f32x16.h"
#include "kernels/internal/vector_table.h"

namespace ebb::kernels::EBB_SIMD_LEVEL {
namespace {

constexpr std::size_t kRows = kProductRows;
constexpr int kFewRowsVectors = 2;
static_assert(kProductRowsLcm % kRows == 0 && kColumnPadding % kPanel == 0 && kTileKeys % kPanel == 0 &&
              kRows <= kLanes);
static_assert(kColumnPadding % (kFewRowsVectors * kLanes) == 0);
static_assert(kFewRowsVectors == 2, "load_pair");

constexpr float kNoScore = -0x1p120f;  // below any score, yet finite: differences with it stay numbers
constexpr float kMasked = -__builtin_inff();

std::size_t min_of(std::size_t a, std::size_t b) { return a < b ? a : b; }
std::size_t max_of(std::size_t a, std::size_t b) { return a > b ? a : b; }
std::size_t padded_columns(const AttentionBlock& block) {
  return (block.head_dim + kColumnPadding - 1) / kColumnPadding * kColumnPadding;
}

/// Keys of a tile, counted from its first.
struct KeyRange {
  std::size_t first = 0;
  std::size_t last = 0;  // one past
  [[nodiscard]] bool empty() const { return first >= last; }
};

/// Keys of the tile that positions first_pos .. last_pos see, all together.
KeyRange visible_keys(const AttentionBlock& block, std::size_t tile_key, std::size_t first_pos, std::size_t last_pos) {
  const std::size_t oldest = block.window == 0 || first_pos < block.window ? 0 : first_pos + 1 - block.window;
  const std::size_t end = min_of(last_pos + 1, tile_key + kTileKeys);
  const std::size_t begin = max_of(oldest, tile_key);
  if (begin >= end) return {};
  return {begin - tile_key, end - tile_key};
}

template <typename Row>
void load_keys(const AttentionBlock& block, const AttentionTile& tile, KeyRange needed) {
  for (std::size_t key_idx = needed.first / kLanes * kLanes; key_idx < needed.last; key_idx += kLanes) {
    float* panel = block.keys + key_idx / kPanel * kPanel * block.head_dim + key_idx % kPanel;
    for (std::size_t col_idx = 0; col_idx < block.head_dim; col_idx += kLanes) {
      const std::size_t cols = min_of(block.head_dim - col_idx, kLanes);
      F32x16 square[kLanes];
      Row::load_square(tile.k + key_idx, col_idx, cols, square);
      for (std::size_t i = 0; i < cols; ++i) store(panel + (col_idx + i) * kPanel, square[i]);
    }
  }
}

template <typename Row>
void load_values(const AttentionBlock& block, const AttentionTile& tile, KeyRange needed) {
  const std::size_t columns = padded_columns(block);
  for (std::size_t key_idx = needed.first; key_idx < needed.last; ++key_idx) {
    for (std::size_t col_idx = 0; col_idx < columns; col_idx += kLanes) {
      float* to = block.values + (col_idx / kPanel * kTileKeys + key_idx) * kPanel + col_idx % kPanel;
      const bool inside = col_idx < block.head_dim;
      store(to, inside ? Row::load_some(tile.v[key_idx], col_idx, min_of(block.head_dim - col_idx, kLanes)) : zero());
    }
  }
}

/// The vector at `col_idx` of a row that ends at `cols`, zero beyond.
template <typename Row>
inline F32x16 load_inside(const std::byte* row, std::size_t cols, std::size_t col_idx) {
  return col_idx < cols ? Row::load_some(row, col_idx, min_of(cols - col_idx, kLanes)) : zero();
}

/// Scores of few rows: keys are turned in registers and used at once, for turned keys in memory would be read only
/// once. What comes next, these keys' values and the next tile's keys, is asked for on the way: memory is what bounds
/// this.
template <int Rows, typename Row>
void score_few_rows(const AttentionBlock& block, const AttentionTile& tile, const AttentionTile& next, KeyRange seen) {
  const RowSpread values = spread_of(block.types.v);
  for (std::size_t key_idx = seen.first / kLanes * kLanes; key_idx < seen.last; key_idx += kLanes) {
    F32x16 sum[Rows];
    for (F32x16& value : sum) value = zero();
    for (std::size_t col_idx = 0; col_idx < block.head_dim; col_idx += kLanes) {
      const std::size_t cols = min_of(block.head_dim - col_idx, kLanes);
      const float* queries = block.queries + col_idx;
      if (col_idx % Row::kLineColumns == 0) {
        for (std::size_t i = 0; i < kLanes; ++i) __builtin_prefetch(next.k[key_idx + i] + Row::offset(col_idx));
      }
      if (col_idx % values.line_columns == 0) {
        const std::size_t offset = col_idx / kLanes * values.bytes_per_sixteen;
        for (std::size_t i = 0; i < kLanes; ++i) __builtin_prefetch(tile.v[key_idx + i] + offset);
      }
      F32x16 square[kLanes];
      if (cols == kLanes) {  // apart, so that the square stays in registers
        Row::load_square(tile.k + key_idx, col_idx, kLanes, square);
        for (std::size_t i = 0; i < kLanes; ++i)
          for (int r = 0; r < Rows; ++r) sum[r] = fma(set1(queries[r * kMaxHeadDim + i]), square[i], sum[r]);
      } else {
        Row::load_square(tile.k + key_idx, col_idx, cols, square);
        for (std::size_t i = 0; i < cols; ++i)
          for (int r = 0; r < Rows; ++r) sum[r] = fma(set1(queries[r * kMaxHeadDim + i]), square[i], sum[r]);
      }
    }
    for (int r = 0; r < Rows; ++r) store(block.scores + r * kTileKeys + key_idx, sum[r]);
  }
}

/// Weighted values of few rows, straight from where they are stored.
template <int Rows, typename Row>
void value_few_rows(const AttentionBlock& block, const AttentionTile& tile, KeyRange seen, const AttentionState& state,
                    const float* shrink) {
  for (std::size_t col_idx = 0; col_idx < block.head_dim; col_idx += kFewRowsVectors * kLanes) {
    F32x16 sum[Rows][kFewRowsVectors];
    for (int r = 0; r < Rows; ++r) {
      for (int v = 0; v < kFewRowsVectors; ++v) {
        const float* out = state.out + r * kMaxHeadDim + col_idx + v * kLanes;
        sum[r][v] = shrink == nullptr ? zero() : load(out) * set1(shrink[r]);
      }
    }
    const bool whole = col_idx + kFewRowsVectors * kLanes <= block.head_dim;
    for (std::size_t key_idx = seen.first; key_idx < seen.last; ++key_idx) {
      const std::byte* row = tile.v[key_idx];
      F32x16 column[kFewRowsVectors];
      if (whole) {
        Row::load_pair(row, col_idx, column);
      } else {
        for (int v = 0; v < kFewRowsVectors; ++v)
          column[v] = load_inside<Row>(row, block.head_dim, col_idx + static_cast<std::size_t>(v) * kLanes);
      }
      for (int r = 0; r < Rows; ++r) {
        const F32x16 weight = set1(block.scores[r * kTileKeys + key_idx]);
        for (int v = 0; v < kFewRowsVectors; ++v) sum[r][v] = fma(weight, column[v], sum[r][v]);
      }
    }
    for (int r = 0; r < Rows; ++r)
      for (int v = 0; v < kFewRowsVectors; ++v) store(state.out + r * kMaxHeadDim + col_idx + v * kLanes, sum[r][v]);
  }
}

/// Turns the scores of one tile of rows into weights, and says by how much what was summed before shrinks. False:
/// nothing was summed before, in any of the rows.
bool softmax_rows(const AttentionBlock& block, const AttentionState& state, std::size_t tile_key, std::size_t first_row,
                  std::size_t rows, KeyRange seen, float* shrink) {
  const std::size_t first_vector = seen.first / kLanes;
  const std::size_t last_vector = (seen.last + kLanes - 1) / kLanes;
  alignas(64) float old_max[kLanes] = {};
  alignas(64) float new_max[kLanes] = {};
  bool started = false;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t pos = block.first_pos + (first_row + r) / block.group;
    const KeyRange own = visible_keys(block, tile_key, pos, pos);
    float* scores = block.scores + (first_row + r) * kTileKeys;
    F32x16 highest = set1(kNoScore);
    for (std::size_t v = first_vector; v < last_vector; ++v) {
      const int base = static_cast<int>(v * kLanes);
      const F32x16 kept = keep_lanes(load(scores + v * kLanes), static_cast<int>(own.first) - base,
                                     static_cast<int>(own.last) - base, set1(kMasked));
      store(scores + v * kLanes, kept);
      highest = max(highest, kept);
    }
    old_max[r] = state.max[first_row + r];
    started = started || old_max[r] != kNoScore;
    const float tile_max = reduce_max(highest);
    new_max[r] = tile_max > old_max[r] ? tile_max : old_max[r];
    if (!own.empty() && new_max[r] == kNoScore)
      new_max[r] = __builtin_nanf("");  // every score is NaN: not "no key yet"
    state.max[first_row + r] = new_max[r];
  }
  store(shrink, exp2(load(old_max) - load(new_max)));
  for (std::size_t r = 0; r < rows; ++r) {
    float* scores = block.scores + (first_row + r) * kTileKeys;
    float* sum = state.sum + (first_row + r) * kLanes;
    const F32x16 shift = set1(new_max[r]);
    F32x16 total = load(sum) * set1(shrink[r]);
    for (std::size_t v = first_vector; v < last_vector; ++v) {
      const F32x16 weight = exp2(load(scores + v * kLanes) - shift);
      total = total + weight;
      store(scores + v * kLanes, weight);
    }
    store(sum, total);
  }
  return started;
}

/// Calls body(first row, rows, keys they see) for each tile of rows that sees any key of the tile.
template <typename Body>
void for_each_row_tile(const AttentionBlock& block, std::size_t tile_key, Body body) {
  for (std::size_t row_idx = 0; row_idx < block.rows; row_idx += kRows) {
    const std::size_t rows = min_of(block.rows - row_idx, kRows);
    const KeyRange seen = visible_keys(block, tile_key, block.first_pos + row_idx / block.group,
                                       block.first_pos + (row_idx + rows - 1) / block.group);
    if (!seen.empty()) body(row_idx, rows, seen);
  }
}

template <int Rows>
void attend_few_rows(const AttentionBlock& block, const AttentionTile& tile, const AttentionTile& next,
                     const AttentionState& state, KeyRange seen) {
  alignas(64) float shrink[kLanes];
  with_row_of(block.types.k, [&](auto row) { score_few_rows<Rows, decltype(row)>(block, tile, next, seen); });
  const bool started = softmax_rows(block, state, tile.first_key, 0, block.rows, seen, shrink);
  with_row_of(block.types.v, [&](auto row) {
    value_few_rows<Rows, decltype(row)>(block, tile, seen, state, started ? shrink : nullptr);
  });
}

void attend_many_rows(const AttentionBlock& block, const AttentionTile& tile, const AttentionState& state,
                      KeyRange needed) {
  const std::size_t key = tile.first_key;
  const std::size_t columns = padded_columns(block);
  with_row_of(block.types.k, [&](auto row) { load_keys<decltype(row)>(block, tile, needed); });
  with_row_of(block.types.v, [&](auto row) { load_values<decltype(row)>(block, tile, needed); });
  for (std::size_t panel = needed.first / kPanel; panel * kPanel < needed.last; ++panel) {
    for_each_row_tile(block, key, [&](std::size_t row, std::size_t rows, KeyRange seen) {
      if (seen.last <= panel * kPanel || seen.first >= (panel + 1) * kPanel) return;
      product_rows<kMaxHeadDim, kTileKeys>(rows, block.queries + row * kMaxHeadDim,
                                           block.keys + panel * kPanel * block.head_dim, block.head_dim,
                                           block.scores + row * kTileKeys + panel * kPanel, nullptr);
    });
  }
  alignas(64) float shrink[kMaxQueryRows + kLanes];
  bool started[kMaxQueryRows / kRows];
  for_each_row_tile(block, key, [&](std::size_t row, std::size_t rows, KeyRange seen) {
    started[row / kRows] = softmax_rows(block, state, key, row, rows, seen, shrink + row);
  });
  for (std::size_t col = 0; col < columns; col += kPanel) {
    const float* panel = block.values + col * kTileKeys;
    for_each_row_tile(block, key, [&](std::size_t row, std::size_t rows, KeyRange seen) {
      product_rows<kTileKeys, kMaxHeadDim>(
          rows, block.scores + row * kTileKeys + seen.first, panel + seen.first * kPanel, seen.last - seen.first,
          state.out + row * kMaxHeadDim + col, started[row / kRows] ? shrink + row : nullptr);
    });
  }
}

}  // namespace

void pack_queries(const AttentionBlock& block, const float* q, std::size_t q_stride, float factor) {
  const std::size_t padded_rows = (block.rows + kRows - 1) / kRows * kRows;
  for (std::size_t row_idx = 0; row_idx < padded_rows; ++row_idx) {
    float* to = block.queries + row_idx * kMaxHeadDim;
    const bool is_row = row_idx < block.rows;
    const float* from = q + (is_row ? row_idx / block.group * q_stride + row_idx % block.group * block.head_dim : 0);
    for (std::size_t col_idx = 0; col_idx < block.head_dim; col_idx += kLanes) {
      const F32x16 value = load_some(from + col_idx, min_of(block.head_dim - col_idx, kLanes)) * set1(factor);
      store(to + col_idx, is_row ? value : zero());
    }
  }
}

void start_state(const AttentionBlock& block, const AttentionState& state) {
  for (std::size_t i = 0; i < block.rows * kLanes; i += kLanes) store(state.sum + i, zero());
  for (std::size_t i = 0; i < block.rows; ++i) state.max[i] = kNoScore;
}

void attend_tile(const AttentionBlock& block, const AttentionTile& tile, const AttentionTile& next,
                 const AttentionState& state) {
  const KeyRange needed = visible_keys(block, tile.first_key, block.first_pos, block.first_pos + block.positions - 1);
  if (needed.empty()) return;
  if (block.rows == 1) return attend_few_rows<1>(block, tile, next, state, needed);
  if (block.rows == 2) return attend_few_rows<2>(block, tile, next, state, needed);
  if constexpr (kProductRows >= 4) {
    if (block.rows <= 4) return attend_few_rows<4>(block, tile, next, state, needed);
  }
  attend_many_rows(block, tile, state, needed);
}

void merge_state(const AttentionBlock& block, const AttentionState& total, const AttentionState& segment) {
  const std::size_t columns = padded_columns(block);
  for (std::size_t r = 0; r < block.rows; ++r) {
    if (segment.max[r] == kNoScore) continue;
    const bool started = total.max[r] != kNoScore;
    const float highest = total.max[r] > segment.max[r] ? total.max[r] : segment.max[r];
    const F32x16 keep_total = exp2(set1(total.max[r]) - set1(highest));
    const F32x16 keep_segment = exp2(set1(segment.max[r]) - set1(highest));
    total.max[r] = highest;
    float* sum = total.sum + r * kLanes;
    store(sum, fma(load(segment.sum + r * kLanes), keep_segment, load(sum) * keep_total));
    for (std::size_t c = r * kMaxHeadDim; c < r * kMaxHeadDim + columns; c += kLanes) {
      const F32x16 before = started ? load(total.out + c) * keep_total : zero();
      store(total.out + c, fma(load(segment.out + c), keep_segment, before));
    }
  }
}

void finish(const AttentionBlock& block, const AttentionState& state, float* out, std::size_t out_stride) {
  for (std::size_t r = 0; r < block.rows; ++r) {
    const F32x16 inverse = set1(1.0f / reduce_add(load(state.sum + r * kLanes)));
    float* to = out + r / block.group * out_stride + r % block.group * block.head_dim;
    for (std::size_t c = 0; c < block.head_dim; c += kLanes) {
      // Adding zero makes -0 into +0: tiles that a row does not see may have done that already, or not.
      const F32x16 value = fma(load(state.out + r * kMaxHeadDim + c), inverse, zero());
      store_some(to + c, value, min_of(block.head_dim - c, kLanes));
    }
  }
}

}  // namespace ebb::kernels::EBB_SIMD_LEVEL
