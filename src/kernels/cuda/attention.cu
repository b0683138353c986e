// Attention on a card. Keys are cut into segments of 128 at absolute multiples; a block sums up one segment for up to
// kQueries query heads of one kv head, each warp 16 keys by itself, then attention_merge adds a query's segments in a
// fixed order. No sum depends on which queries share a block or a launch, so a token has the same bits in any batch.
// Called through attention.h. Scores: a lane has 8 columns of a row (16 bytes of a half), then lanes add as a tree. All
// explicit fmaf: contraction must not differ between instances.

#include "kernels/cuda/internal/attention_keys.cuh"
#include "kernels/cuda/internal/oldest_key.cuh"
#include "kernels/cuda/kv_place.h"

namespace {

using namespace ebb::kernels::cuda;

constexpr unsigned kFewBlocks = 128;

/// Half of the lanes find rows of K, half of V; outside [first_key, last_key] the nearest inside. In a launch of few
/// blocks all are asked for at once, since nothing else keeps memory busy while a warp waits; in a large one that only
/// costs.
template <int kQueries>
__device__ void find_rows(const AttentionCall& call, unsigned own_key, unsigned head, unsigned first_key,
                          unsigned last_key, WarpKeys<kQueries>& keys) {
  static_assert(kWarpKeys == 16, "a lane a row of K or of V");
  const unsigned idx = threadIdx.x % kWarpKeys;
  const bool is_v = threadIdx.x % 32 >= kWarpKeys;
  const unsigned pos = min(max(own_key + idx, first_key), last_key);
  const KvPlace& place = pos < call.past_end ? call.past : call.fresh;
  const unsigned slot = pos % place.slots;
  const unsigned row_bytes = is_v ? call.v_row_bytes : call.k_row_bytes;
  const char* const row = (is_v ? place.v : place.k) + slot / place.run_tokens * place.run_stride +
                          head * (is_v ? place.v_head_stride : place.k_head_stride) +
                          static_cast<unsigned long long>(slot % place.run_tokens) * row_bytes;
  (is_v ? keys.v_rows : keys.k_rows)[idx] = row;
  if (gridDim.x * gridDim.y * gridDim.z > kFewBlocks) return;
  for (unsigned at = 0; at < row_bytes; at += 128) asm volatile("prefetch.global.L2 [%0];" ::"l"(row + at));
}

/// A warp's scores become weights, powers of two below the largest that the query sees; that and their sum go to
/// `of_warp`.
template <int kQueries>
__device__ void weigh(const AttentionCall& call, unsigned own_key, unsigned first_query, float* scores,
                      float2* of_warp) {
  const float infinity = __int_as_float(0x7f800000);
  const unsigned lane = threadIdx.x % 32;
  constexpr int kHeld = kWarpKeys * kQueries / 32;  // of a lane, all of one query
  const unsigned query = first_query + lane % kQueries;
  const unsigned pos = call.first_pos + query / call.group;
  const unsigned oldest = oldest_key(call, pos);
  const bool exists = query < call.rows * call.group;
  float held[kHeld];
  float largest = -infinity;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const unsigned key = own_key + (i * 32 + lane) / kQueries;
    held[i] = exists && key >= oldest && key <= pos ? scores[i * 32 + lane] : -infinity;
    largest = fmaxf(largest, held[i]);
  }
#pragma unroll
  for (int distance = 16; distance >= kQueries; distance /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, distance));
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    held[i] = held[i] == -infinity ? 0.0f : exp2f(__fsub_rn(held[i], largest));
    scores[i * 32 + lane] = held[i];
  }
  // Keys 8 apart, then 4, 2, 1: the same tree whatever kQueries is.
#pragma unroll
  for (int half = kHeld / 2; half > 0; half /= 2) {
#pragma unroll
    for (int i = 0; i < half; ++i) held[i] = __fadd_rn(held[i], held[i + half]);
  }
  float weights = held[0];
#pragma unroll
  for (int distance = 16; distance >= kQueries; distance /= 2)
    weights = __fadd_rn(weights, __shfl_xor_sync(kAll, weights, distance));
  if (lane < kQueries) of_warp[lane] = float2{largest, weights};
}

template <int kLanes, int kQueries>
__device__ void load_queries(const AttentionCall& call, unsigned first_query, unsigned last_query, unsigned head,
                             unsigned chunk, bool has_columns, float (&q)[kQueries][kColumns]) {
  const float factor = has_columns ? call.factor : 0.0f;
#pragma unroll
  for (int i = 0; i < kQueries; ++i) {
    const unsigned query = min(first_query + i, last_query);
    const auto* const from = reinterpret_cast<const float4*>(
        call.q + query / call.group * call.q_stride +
        static_cast<unsigned long long>(head * call.group + query % call.group) * call.head_dim + chunk * kColumns);
    const float4 low = __ldg(from);
    const float4 high = __ldg(from + 1);
    const float columns[kColumns] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int c = 0; c < kColumns; ++c) q[i][c] = __fmul_rn(columns[c], factor);
  }
}

/// What a warp makes of its keys: sums of weighted values, each lane's columns of each query.
template <int kLanes, int kQueries>
__device__ void attend_keys(const AttentionCall& call, unsigned own_key, unsigned first_query, unsigned last_query,
                            unsigned head, unsigned first_key, unsigned last_key, WarpKeys<kQueries>& keys,
                            float2* of_warp, float (&sums)[kQueries][kColumns]) {
  const unsigned lane_chunk = threadIdx.x % kLanes;
  const bool has_columns = lane_chunk * kColumns < call.head_dim;
  const unsigned chunk = min(lane_chunk, call.head_dim / kColumns - 1);  // lanes without columns read the last, times 0
  find_rows<kQueries>(call, own_key, head, first_key, last_key, keys);
  {
    float q[kQueries][kColumns];
    load_queries<kLanes, kQueries>(call, first_query, last_query, head, chunk, has_columns, q);
    __syncwarp();
    switch (call.k_kind) {
      case kKindF32:
        score_keys<kKindF32, kLanes, kQueries>(keys.k_rows, q, chunk, keys.scores);
        break;
      case kKindF16:
        score_keys<kKindF16, kLanes, kQueries>(keys.k_rows, q, chunk, keys.scores);
        break;
      case kKindBf16:
        score_keys<kKindBf16, kLanes, kQueries>(keys.k_rows, q, chunk, keys.scores);
        break;
      case kKindQ8:
        score_keys<kKindQ8, kLanes, kQueries>(keys.k_rows, q, chunk, keys.scores);
        break;
      case kKindQ4:
        score_keys<kKindQ4, kLanes, kQueries>(keys.k_rows, q, chunk, keys.scores);
        break;
      case kKindQ8InHalves:
        score_keys<kKindQ8InHalves, kLanes, kQueries>(keys.k_rows, q, chunk, keys.scores);
        break;
      default:
        score_keys<kKindQ4InHalves, kLanes, kQueries>(keys.k_rows, q, chunk, keys.scores);
    }
  }
  __syncwarp();
  weigh<kQueries>(call, own_key, first_query, keys.scores, of_warp);
  __syncwarp();
  switch (call.v_kind) {
    case kKindF32:
      add_values<kKindF32, kLanes, kQueries>(keys.v_rows, keys.scores, chunk, sums);
      break;
    case kKindF16:
      add_values<kKindF16, kLanes, kQueries>(keys.v_rows, keys.scores, chunk, sums);
      break;
    case kKindBf16:
      add_values<kKindBf16, kLanes, kQueries>(keys.v_rows, keys.scores, chunk, sums);
      break;
    case kKindQ8:
      add_values<kKindQ8, kLanes, kQueries>(keys.v_rows, keys.scores, chunk, sums);
      break;
    case kKindQ4:
      add_values<kKindQ4, kLanes, kQueries>(keys.v_rows, keys.scores, chunk, sums);
      break;
    case kKindQ8InHalves:
      add_values<kKindQ8InHalves, kLanes, kQueries>(keys.v_rows, keys.scores, chunk, sums);
      break;
    default:
      add_values<kKindQ4InHalves, kLanes, kQueries>(keys.v_rows, keys.scores, chunk, sums);
  }
#pragma unroll
  for (int i = 0; i < kQueries; ++i) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int distance = 16; distance >= kLanes; distance /= 2)
        sums[i][c] += __shfl_xor_sync(kAll, sums[i][c], distance);
    }
  }
}

template <int kLanes, int kQueries>
__device__ void attend_segment(const AttentionCall& call) {
  constexpr int kAtOnce = least(kQueries, 4);  // queries whose sums of all warps are in memory together
  constexpr int kVectors = kLanes * kColumns / 4;
  __shared__ WarpKeys<kQueries> keys[kWarps];
  __shared__ float2 of_warps[kWarps][kQueries];
  __shared__ float4 warp_sums[kWarps][kAtOnce][kVectors];
  const unsigned segment = call.first_segment + blockIdx.x;
  const unsigned first_query = blockIdx.y * kQueries;
  const unsigned head = blockIdx.z;
  const unsigned last_query = min(first_query + kQueries, call.rows * call.group) - 1;
  const unsigned last_key = call.first_pos + last_query / call.group;
  const unsigned first_key = oldest_key(call, call.first_pos + first_query / call.group);
  if (last_key < segment * kKvSegment || first_key >= (segment + 1) * kKvSegment) return;  // nobody sees it

  const unsigned warp = threadIdx.x / 32;
  const unsigned own_key = segment * kKvSegment + warp * kWarpKeys;
  float sums[kQueries][kColumns] = {};
  if (own_key <= last_key && own_key + kWarpKeys > first_key) {
    attend_keys<kLanes, kQueries>(call, own_key, first_query, last_query, head, first_key, last_key, keys[warp],
                                  of_warps[warp], sums);
  } else if (threadIdx.x % 32 < kQueries) {
    of_warps[warp][threadIdx.x % 32] = float2{-__int_as_float(0x7f800000), 0.0f};
  }

#pragma unroll
  for (int group = 0; group < kQueries; group += kAtOnce) {
    if (group > 0) __syncthreads();
    const unsigned chunk = threadIdx.x % kLanes;
    if (threadIdx.x % 32 < kLanes) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        // Columns 0..3 of all lanes, then 4..7: neighbouring lanes write to neighbouring addresses.
        const float(&own)[kColumns] = sums[group + i];
        warp_sums[warp][i][chunk] = float4{own[0], own[1], own[2], own[3]};
        warp_sums[warp][i][kLanes + chunk] = float4{own[4], own[5], own[6], own[7]};
      }
    }
    __syncthreads();
    for (unsigned at = threadIdx.x; at < kAtOnce * kVectors; at += kThreads) {
      const unsigned i = at / kVectors;
      const unsigned vector = at % kVectors;
      const unsigned query = first_query + group + i;
      const unsigned column = vector % kLanes * kColumns + vector / kLanes * 4;
      if (query > last_query || column >= call.head_dim) continue;
      float largest = of_warps[0][group + i].x;
#pragma unroll
      for (int other = 1; other < kWarps; ++other) largest = fmaxf(largest, of_warps[other][group + i].x);
      float4 sum = {0, 0, 0, 0};
      float weight_sum = 0;
#pragma unroll
      for (int other = 0; other < kWarps; ++other) {
        const float2 of_warp = of_warps[other][group + i];
        const float4 value = warp_sums[other][i][vector];
        const float weight = of_warp.x == -__int_as_float(0x7f800000) ? 0.0f : exp2f(__fsub_rn(of_warp.x, largest));
        sum.x = fmaf(weight, value.x, sum.x);
        sum.y = fmaf(weight, value.y, sum.y);
        sum.z = fmaf(weight, value.z, sum.z);
        sum.w = fmaf(weight, value.w, sum.w);
        weight_sum = fmaf(weight, of_warp.y, weight_sum);
      }
      const unsigned q_head = head * call.group + query % call.group;
      const unsigned long long row = static_cast<unsigned long long>(query / call.group) * call.q_heads + q_head;
      const unsigned long long place = row * call.segments + blockIdx.x;
      *reinterpret_cast<float4*>(call.partial_values + place * call.head_dim + column) = sum;
      if (vector == 0) static_cast<float2*>(call.partial_sums)[place] = float2{largest, weight_sum};
    }
  }
}

}  // namespace

#define EBB_ATTENTION(kLanes, kQueries)                                             \
  extern "C" __global__ void __launch_bounds__(kThreads, kQueries == 8 ? 2 : 3)     \
      attention_##kLanes##_##kQueries(const __grid_constant__ AttentionCall call) { \
    attend_segment<kLanes, kQueries>(call);                                         \
  }
EBB_ATTENTION(8, 2)
EBB_ATTENTION(8, 4)
EBB_ATTENTION(8, 8)
EBB_ATTENTION(16, 2)
EBB_ATTENTION(16, 4)
EBB_ATTENTION(16, 8)
EBB_ATTENTION(32, 2)
EBB_ATTENTION(32, 4)
EBB_ATTENTION(32, 8)
