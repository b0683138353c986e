// What kernels of keys and values are told: a KvView in plain numbers, and the arguments of attention. Read by the
// kernels (src/kernels/cuda/*.cu) and their launchers, which fill it in; nothing here owns memory.
#pragma once

namespace ebb::kernels::cuda {

/// As KvView: the row (head, pos) of K is at k + slot / run_tokens * run_stride + head * k_head_stride + slot %
/// run_tokens * row.
struct KvPlace {
  char* k = nullptr;
  char* v = nullptr;
  unsigned long long run_stride = 0;
  unsigned long long k_head_stride = 0;
  unsigned long long v_head_stride = 0;
  unsigned slots = 1;
  unsigned run_tokens = 1;
};

/// How rows are stored: the numbers of KvType, and how attention reads rows of blocks that no word of 4 bytes may
/// cover.
inline constexpr unsigned kKindF32 = 0;
inline constexpr unsigned kKindF16 = 1;
inline constexpr unsigned kKindBf16 = 2;
inline constexpr unsigned kKindQ8 = 3;
inline constexpr unsigned kKindQ4 = 4;
inline constexpr unsigned kKindQ8InHalves = 5;
inline constexpr unsigned kKindQ4InHalves = 6;

inline constexpr int kKvSegment = 128;       // keys of a block; segments start at absolute multiples
inline constexpr unsigned kKvStoreRows = 4;  // of a block
inline constexpr unsigned kAttentionThreads = 256;
inline constexpr unsigned kMergeThreads = 512;
inline constexpr unsigned kMergeColumns = 64;

struct AttentionCall {
  KvPlace past;
  KvPlace fresh;
  const float* q = nullptr;
  unsigned long long q_stride = 0;
  float* out = nullptr;
  float* partial_values =
      nullptr;  // [rows, q_heads, segments, head_dim]: weighted by powers of two below the segment's maximum
  void* partial_sums = nullptr;  // float2 [rows, q_heads, segments]: that maximum, and the sum of the weights
  unsigned first_pos = 0;        // of the rows of this launch
  unsigned past_end = 0;         // positions below are in `past`
  unsigned rows = 0;
  unsigned q_heads = 0;
  unsigned group = 1;
  unsigned head_dim = 0;
  unsigned window = 0;
  unsigned first_segment = 0;
  unsigned segments = 0;
  unsigned k_kind = 0;
  unsigned v_kind = 0;
  unsigned k_row_bytes = 0;
  unsigned v_row_bytes = 0;
  float factor = 1;  // scale, and log2 e
};

}  // namespace ebb::kernels::cuda
