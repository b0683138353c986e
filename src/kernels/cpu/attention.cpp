#include "kernels/attention.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kernels/internal/vector_kernels.h"

namespace ebb::kernels {
namespace {

constexpr std::size_t kSumLanes = 16;
constexpr std::size_t kLineFloats = 16;
constexpr std::size_t kSplitRows = 16;            // query rows a piece may have where keys are split
constexpr std::size_t kSplitPiecesPerThread = 8;  // enough that the last piece is short beside the whole
constexpr std::size_t kBlocksPerThread = 4;

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }
std::size_t divide_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }

std::size_t padded_rows(std::size_t rows) { return round_up(rows, kProductRowsLcm); }
std::size_t padded_columns(std::size_t head_dim) { return round_up(head_dim, kColumnPadding); }

std::size_t state_floats(std::size_t rows) {
  const std::size_t padded = padded_rows(rows);
  return padded * (kMaxHeadDim + kSumLanes) + round_up(padded, kLineFloats);
}

std::size_t scratch_floats(std::size_t rows, std::size_t head_dim) {
  const std::size_t padded = padded_rows(rows);
  return padded * (kMaxHeadDim + kTileKeys) + 2 * kTileKeys * padded_columns(head_dim) + 2 * state_floats(rows);
}

/// Hands out the workspace piece by piece.
class Carver {
 public:
  explicit Carver(float* at) : at_(at) {}
  float* take(std::size_t floats) {
    float* taken = at_;
    at_ += round_up(floats, kLineFloats);
    return taken;
  }
  AttentionState take_state(std::size_t rows) {
    const std::size_t padded = padded_rows(rows);
    AttentionState state;
    state.out = take(padded * kMaxHeadDim);
    state.sum = take(padded * kSumLanes);
    state.max = take(padded);
    return state;
  }

 private:
  float* at_;
};

struct Scratch {
  AttentionBlock block;
  AttentionState segment;
  AttentionState total;
};

/// One call's arguments and what follows from them.
struct Call {
  const AttentionShape& shape;
  const float* q;
  std::size_t q_stride;
  const KvView& past;
  const KvView& fresh;
  float* out;
  const VectorKernels& vector;
  std::size_t group;
  float factor;  // scale, and log2 e because softmax works with powers of two

  [[nodiscard]] std::size_t oldest_key(std::size_t pos) const {
    return shape.window == 0 || pos < shape.window ? 0 : pos + 1 - shape.window;
  }
};

Scratch make_scratch(const Call& call, float* workspace, std::size_t max_rows, std::size_t first_row,
                     std::size_t positions, std::size_t kv_head) {
  Scratch scratch;
  AttentionBlock& block = scratch.block;
  block.first_pos = call.shape.first_pos + first_row;
  block.positions = positions;
  block.group = call.group;
  block.rows = positions * call.group;
  block.head_dim = call.shape.head_dim;
  block.window = call.shape.window;
  block.types = call.fresh.types;
  Carver carver(workspace);
  block.queries = carver.take(padded_rows(max_rows) * kMaxHeadDim);
  block.keys = carver.take(kTileKeys * padded_columns(block.head_dim));
  block.values = carver.take(kTileKeys * padded_columns(block.head_dim));
  block.scores = carver.take(padded_rows(max_rows) * kTileKeys);
  scratch.segment = carver.take_state(max_rows);
  scratch.total = carver.take_state(max_rows);
  const float* q = call.q + first_row * call.q_stride + kv_head * call.group * block.head_dim;
  call.vector.pack_queries(block, q, call.q_stride, call.factor);
  return scratch;
}

/// Where the rows of a tile's keys lie; outside [first_key, last_key), which lies in one tile, the nearest row inside.
AttentionTile find_tile(const Call& call, std::size_t kv_head, std::size_t first_key, std::size_t last_key) {
  AttentionTile tile;
  tile.first_key = first_key / kTileKeys * kTileKeys;
  const std::size_t k_row_bytes = kv_row_bytes(call.fresh.types.k, call.shape.head_dim);
  const std::size_t v_row_bytes = kv_row_bytes(call.fresh.types.v, call.shape.head_dim);
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  std::size_t in_a_row = 0;  // keys that follow one another in memory: up to the end of a run, of a ring, of the past
  for (std::size_t i = 0; i < kTileKeys; ++i) {
    const std::size_t pos = std::clamp(tile.first_key + i, first_key, last_key - 1);
    const bool is_past = pos < call.shape.first_pos;
    const KvView& view = is_past ? call.past : call.fresh;
    if (in_a_row == 0 || pos == first_key) {
      const std::size_t slot = pos % view.slots;
      k = view.k + view.offset_k(kv_head, pos, call.shape.head_dim);
      v = view.v + view.offset_v(kv_head, pos, call.shape.head_dim);
      in_a_row = std::min(view.run_tokens - slot % view.run_tokens, view.slots - slot);
      if (is_past) in_a_row = std::min(in_a_row, call.shape.first_pos - pos);
    } else if (tile.first_key + i < last_key) {
      k += k_row_bytes;
      v += v_row_bytes;
    }
    --in_a_row;
    tile.k[i] = k;
    tile.v[i] = v;
  }
  return tile;
}

/// Sums up the keys [first_key, last_key) of one segment into `state`.
void attend_segment(const Call& call, const AttentionBlock& block, std::size_t kv_head, std::size_t first_key,
                    std::size_t last_key, const AttentionState& state) {
  call.vector.start_state(block, state);
  const auto tile_at = [&](std::size_t key) {
    const std::size_t end = key / kTileKeys * kTileKeys + kTileKeys;
    return find_tile(call, kv_head, key, std::min(end, last_key));
  };
  AttentionTile tile = tile_at(first_key);
  for (std::size_t key = tile.first_key + kTileKeys; key < last_key; key += kTileKeys) {
    const AttentionTile next = tile_at(key);
    call.vector.attend_tile(block, tile, next, state);
    tile = next;
  }
  call.vector.attend_tile(block, tile, tile, state);
}

float* out_of(const Call& call, std::size_t first_row, std::size_t kv_head) {
  return call.out + (first_row * call.shape.q_heads + kv_head * call.group) * call.shape.head_dim;
}

/// All keys of a block of query rows, segment after segment.
void attend_block(const Call& call, float* workspace, std::size_t max_rows, std::size_t first_row,
                  std::size_t positions, std::size_t kv_head) {
  const Scratch scratch = make_scratch(call, workspace, max_rows, first_row, positions, kv_head);
  const AttentionBlock& block = scratch.block;
  const std::size_t first_key = call.oldest_key(block.first_pos);
  const std::size_t last_key = block.first_pos + positions;
  const bool one_segment = first_key / kSegmentKeys == (last_key - 1) / kSegmentKeys;
  if (!one_segment) call.vector.start_state(block, scratch.total);
  for (std::size_t key = first_key / kSegmentKeys * kSegmentKeys; key < last_key; key += kSegmentKeys) {
    attend_segment(call, block, kv_head, std::max(key, first_key), std::min(key + kSegmentKeys, last_key),
                   scratch.segment);
    if (!one_segment) call.vector.merge_state(block, scratch.total, scratch.segment);
  }
  call.vector.finish(block, one_segment ? scratch.segment : scratch.total, out_of(call, first_row, kv_head),
                     call.shape.q_heads * call.shape.head_dim);
}

/// Few query rows and many keys: the segments of a kv head go to different threads, a round of them at a time, and are
/// merged in order. The sums are those of attend_block.
void attend_split(ThreadPool& threads, const Call& call, float* workspace, std::size_t scratch_stride) {
  const AttentionShape& shape = call.shape;
  const std::size_t rows = shape.rows * call.group;
  const auto thread_count = static_cast<std::size_t>(threads.thread_count());
  const std::size_t segments_per_round =
      std::max<std::size_t>(1, kSplitPiecesPerThread * thread_count / shape.kv_heads);
  const std::size_t first_key = call.oldest_key(shape.first_pos);
  const std::size_t last_key = shape.first_pos + shape.rows;
  const std::size_t first_segment = first_key / kSegmentKeys;
  const std::size_t last_segment = divide_up(last_key, kSegmentKeys);
  float* partials = workspace + thread_count * scratch_stride;
  float* totals = partials + segments_per_round * shape.kv_heads * state_floats(kSplitRows);
  const auto state_at = [&](float* base, std::size_t idx) {
    return Carver(base + idx * state_floats(kSplitRows)).take_state(kSplitRows);
  };

  AttentionBlock block;
  block.group = call.group;
  block.rows = rows;
  block.head_dim = shape.head_dim;
  for (std::size_t head = 0; head < shape.kv_heads; ++head) call.vector.start_state(block, state_at(totals, head));
  for (std::size_t segment = first_segment; segment < last_segment; segment += segments_per_round) {
    const std::size_t count = std::min(segments_per_round, last_segment - segment);
    threads.parallel_for(count * shape.kv_heads, [&](std::size_t piece_idx, int thread_idx) {
      const std::size_t head = piece_idx % shape.kv_heads;
      const std::size_t key = (segment + piece_idx / shape.kv_heads) * kSegmentKeys;
      float* own = workspace + static_cast<std::size_t>(thread_idx) * scratch_stride;
      const Scratch scratch = make_scratch(call, own, rows, 0, shape.rows, head);
      attend_segment(call, scratch.block, head, std::max(key, first_key), std::min(key + kSegmentKeys, last_key),
                     state_at(partials, piece_idx));
    });
    for (std::size_t piece_idx = 0; piece_idx < count * shape.kv_heads; ++piece_idx)
      call.vector.merge_state(block, state_at(totals, piece_idx % shape.kv_heads), state_at(partials, piece_idx));
  }
  for (std::size_t head = 0; head < shape.kv_heads; ++head)
    call.vector.finish(block, state_at(totals, head), out_of(call, 0, head), shape.q_heads * shape.head_dim);
}

}  // namespace

bool kv_supported(KvTypes types, std::size_t head_dim) {
  const auto in_blocks = [](KvType type) { return type == KvType::Q8_0 || type == KvType::Q4_0; };
  const std::size_t multiple = in_blocks(types.k) || in_blocks(types.v) ? kKvBlock : 8;
  return head_dim > 0 && head_dim % multiple == 0 && head_dim <= kMaxHeadDim;
}

std::size_t attention_workspace_bytes(int thread_count, std::size_t rows, std::size_t q_heads, std::size_t head_dim) {
  const auto threads = static_cast<std::size_t>(thread_count);
  const std::size_t block_rows = std::min(rows * q_heads, kMaxQueryRows);
  const std::size_t split_states = (kSplitPiecesPerThread + 2) * threads;  // partial ones and totals, see attend_split
  return sizeof(float) * (threads * scratch_floats(block_rows, head_dim) + split_states * state_floats(kSplitRows));
}

void attention(ThreadPool& threads, const AttentionShape& shape, const float* q, std::size_t q_stride,
               const KvView& past, const KvView& fresh, float* out, std::byte* workspace) {
  EBB_CHECK(shape.kv_heads > 0 && shape.q_heads % shape.kv_heads == 0, "{} query heads, {} kv heads", shape.q_heads,
            shape.kv_heads);
  EBB_CHECK(kv_supported(fresh.types, shape.head_dim), "no kernel for these KV types with head_dim {}", shape.head_dim);
  EBB_CHECK(shape.first_pos == 0 || past.types == fresh.types, "past and fresh keys of different types");
  EBB_CHECK(reinterpret_cast<std::uintptr_t>(workspace) % 64 == 0, "workspace not aligned to 64 bytes");
  if (shape.rows == 0) return;

  constexpr double kLog2E = 1.4426950408889634;
  const Call call{shape,
                  q,
                  q_stride,
                  past,
                  fresh,
                  out,
                  vector_kernels(simd_level()),
                  shape.q_heads / shape.kv_heads,
                  static_cast<float>(static_cast<double>(shape.scale) * kLog2E)};
  EBB_CHECK(call.group <= kMaxQueryRows, "{} query heads share a kv head", call.group);

  const auto thread_count = static_cast<std::size_t>(threads.thread_count());
  float* scratch = reinterpret_cast<float*>(workspace);
  const std::size_t max_rows = std::min(shape.rows * shape.q_heads, kMaxQueryRows);
  const std::size_t scratch_stride = scratch_floats(max_rows, shape.head_dim);
  const std::size_t visible_keys = shape.first_pos + shape.rows - call.oldest_key(shape.first_pos);
  if (shape.rows * call.group <= kSplitRows && shape.rows * shape.kv_heads < 2 * thread_count &&
      visible_keys > kSegmentKeys) {
    attend_split(threads, call, scratch, scratch_stride);
    return;
  }

  const std::size_t wanted_blocks = divide_up(kBlocksPerThread * thread_count, shape.kv_heads);
  const std::size_t positions =
      std::clamp<std::size_t>(divide_up(shape.rows, wanted_blocks), 1, kMaxQueryRows / call.group);
  const std::size_t blocks = divide_up(shape.rows, positions);
  threads.parallel_for(blocks * shape.kv_heads, [&](std::size_t piece_idx, int thread_idx) {
    // The last rows see the most keys: they go first, so that short pieces fill the gaps at the end.
    const std::size_t first_row = (blocks - 1 - piece_idx / shape.kv_heads) * positions;
    attend_block(call, scratch + static_cast<std::size_t>(thread_idx) * scratch_stride, max_rows, first_row,
                 std::min(positions, shape.rows - first_row), piece_idx % shape.kv_heads);
  });
}

}  // namespace ebb::kernels
