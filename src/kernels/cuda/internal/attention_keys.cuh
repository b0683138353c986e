// What a warp of attention does with the rows of its 16 keys: scores of K, then weighted sums of V. A lane has 8
// columns of a row, so that sums over columns are trees over lanes. For attention.cu alone. Order of sums: a score is a
// chain of 8 columns, then lanes from far to near; a value is a chain over the keys that its lanes have, in order;
// neither depends on kQueries.
#pragma once

#include "kernels/cuda/internal/kv_columns.cuh"
#include "kernels/cuda/kv_place.h"

namespace ebb::kernels::cuda {
namespace {

constexpr int kThreads = kAttentionThreads;
constexpr int kWarps = kThreads / 32;
constexpr int kWarpKeys = kKvSegment / kWarps;
constexpr unsigned kAll = 0xffffffffu;

__host__ __device__ constexpr int least(int a, int b) { return a < b ? a : b; }

/// Adds each of kCount values over kDistance * 2 neighbouring lanes, far ones first. A lane keeps kCount / 2 of them
/// after each step, from `idx` on, as long as there are two.
template <int kDistance, int kCount>
__device__ void add_lanes(float* values, int& idx) {
  if constexpr (kDistance > 0) {
    if constexpr (kCount > 1) {
      constexpr int kHalf = kCount / 2;
      const bool is_upper = (threadIdx.x & kDistance) != 0;
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        const float sent = is_upper ? values[i] : values[i + kHalf];
        const float kept = is_upper ? values[i + kHalf] : values[i];
        values[i] = kept + __shfl_xor_sync(kAll, sent, kDistance);
      }
      idx += is_upper ? kHalf : 0;
      add_lanes<kDistance / 2, kHalf>(values, idx);
    } else {
      values[0] += __shfl_xor_sync(kAll, values[0], kDistance);
      add_lanes<kDistance / 2, 1>(values, idx);
    }
  }
}

/// Where a warp's rows lie, and its scores, later weights: [key][query].
template <int kQueries>
struct WarpKeys {
  const char* k_rows[kWarpKeys];
  const char* v_rows[kWarpKeys];
  float scores[kWarpKeys * kQueries];
};

template <unsigned kKind, int kLanes, int kQueries>
__host__ __device__ constexpr int keys_a_step() {
  return least(kQueries == 2 ? 8 : 4, least(kWarpKeys * kLanes / 32, kKind == kKindF32 ? 4 : 8));
}

/// Scores of this warp's keys: scores[key][query].
template <unsigned kKind, int kLanes, int kQueries>
__device__ void score_keys(const char* const* rows, const float (&q)[kQueries][kColumns], unsigned chunk,
                           float* scores) {
  constexpr int kTogether = 32 / kLanes;  // keys that the warp's lanes have at once
  constexpr int kStep = keys_a_step<kKind, kLanes, kQueries>();
  const int first = static_cast<int>(threadIdx.x % 32) / kLanes;
  for (int step = 0; step < kWarpKeys; step += kStep * kTogether) {
    Columns<kKind> columns[kStep];
#pragma unroll
    for (int j = 0; j < kStep; ++j) {
      columns[j].load(rows[first + step + j * kTogether], chunk);
    }
    float sums[kStep * kQueries];
#pragma unroll
    for (int j = 0; j < kStep; ++j) {
      float x[kColumns];
      columns[j].numbers(x);
#pragma unroll
      for (int i = 0; i < kQueries; ++i) {
        float sum = 0;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) sum = fmaf(q[i][c], x[c], sum);
        sums[j * kQueries + i] = Columns<kKind>::kHasScale ? __fmul_rn(sum, columns[j].scale()) : sum;
      }
    }
    int idx = 0;
    add_lanes<kLanes / 2, kStep * kQueries>(sums, idx);
    constexpr int kKept = kStep * kQueries > kLanes ? kStep * kQueries / kLanes : 1;
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const int key = first + step + (idx + i) / kQueries * kTogether;
      scores[key * kQueries + (idx + i) % kQueries] = sums[i];
    }
  }
}

/// Adds weight * value over this warp's keys, in order.
template <unsigned kKind, int kLanes, int kQueries>
__device__ void add_values(const char* const* rows, const float* weights, unsigned chunk,
                           float (&sums)[kQueries][kColumns]) {
  constexpr int kTogether = 32 / kLanes;
  constexpr int kStep = keys_a_step<kKind, kLanes, kQueries>();
  const int first = static_cast<int>(threadIdx.x % 32) / kLanes;
  for (int step = 0; step < kWarpKeys; step += kStep * kTogether) {
    Columns<kKind> columns[kStep];
#pragma unroll
    for (int j = 0; j < kStep; ++j) {
      columns[j].load(rows[first + step + j * kTogether], chunk);
    }
#pragma unroll
    for (int j = 0; j < kStep; ++j) {
      float x[kColumns];
      columns[j].numbers(x);
      const float* const own = weights + (first + step + j * kTogether) * kQueries;
#pragma unroll
      for (int i = 0; i < kQueries; ++i) {
        const float weight = Columns<kKind>::kHasScale ? __fmul_rn(own[i], columns[j].scale()) : own[i];
#pragma unroll
        for (int c = 0; c < kColumns; ++c) sums[i][c] = fmaf(weight, x[c], sums[i][c]);
      }
    }
  }
}

}  // namespace
}  // namespace ebb::kernels::cuda
