#include "kernels/matmul.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"
#include "kernels/cpu/internal/integer_block.h"
#include "kernels/cpu/internal/matmul_kernels.h"

namespace ebb::kernels {
namespace {

const MatmulKernels& kernels_in_use() {
  switch (simd_level()) {
    case SimdLevel::Portable: return portable_matmul_kernels();
#if defined(__x86_64__)
    case SimdLevel::Avx2: return avx2_matmul_kernels();
    case SimdLevel::Avx512: return avx512_matmul_kernels();
#else
    default: break;
#endif
  }
  return portable_matmul_kernels();
}

/// A piece of work is `rows` rows of one product for one block of tokens.
struct Split {
  std::size_t rows_per_piece;
  std::size_t tokens_per_piece;
  std::size_t token_blocks;

  [[nodiscard]] std::size_t pieces(const MatmulProduct& product) const {
    return div_up(product.w.rows, rows_per_piece) * token_blocks;
  }
};

/// Pieces small enough that the last one does not keep the other threads waiting, large enough to hide the hand-out.
Split split_work(std::span<const MatmulProduct> products, std::size_t tokens, std::size_t thread_count) {
  constexpr std::size_t kPiecesPerThread = 12;
  constexpr std::size_t kMinPieceWork = std::size_t{1} << 16;  // columns times rows times tokens (one token costs a few more)
  constexpr std::size_t kTileRows = kMaxTilePanels * kPanelRows;
  std::size_t rows = 0;
  for (const MatmulProduct& product : products) rows += product.w.rows;
  const std::size_t tokens_per_piece = std::min(tokens, kMaxTokenBlock);
  const std::size_t token_blocks = div_up(tokens, tokens_per_piece);
  const std::size_t for_balance = div_up(rows * token_blocks, thread_count * kPiecesPerThread);
  const std::size_t for_overhead = div_up(kMinPieceWork, products.front().w.cols * tokens_per_piece);
  return {round_up(std::max(for_balance, for_overhead), kTileRows), tokens_per_piece, token_blocks};
}

MatmulJob make_job(const MatmulInput& input, const MatmulProduct& product, const Split& split, std::size_t piece_idx,
                   PanelWorkspace* workspace) {
  const TensorView& w = product.w;
  const DTypeInfo& info = dtype_info(w.dtype);
  const std::size_t first_row = piece_idx / split.token_blocks * split.rows_per_piece;
  const std::size_t first_token = piece_idx % split.token_blocks * split.tokens_per_piece;
  MatmulJob job;
  job.dtype = w.dtype;
  job.block_values = info.block_values;
  job.block_bytes = info.block_bytes;
  job.w = w.row(first_row);
  job.w_row_bytes = w.row_bytes();
  job.row_count = std::min(split.rows_per_piece, w.rows - first_row);
  job.cols = w.cols;
  job.offset_values = offset_values(w.dtype);
  job.token_count = std::min(split.tokens_per_piece, input.rows - first_token);
  job.x = input.x + first_token * input.cols;
  if (input.quantized != nullptr && info.block_values > 1) {
    const QuantizedLayout layout(input.cols);
    job.quantized = input.quantized + first_token * layout.row_bytes;
    job.quantized_row_bytes = layout.row_bytes;
    job.scales_at = layout.scales_at;
    if (input.rows == 1) {
      job.digits = input.quantized + layout.digits_at;
      job.digit_sums = input.quantized + layout.digit_sums_at;
    }
    job.sums_at = job.offset_values == 16 ? layout.sums16_at : layout.sums32_at;
  }
  job.y = product.y + first_token * product.y_stride + first_row;
  job.y_stride = product.y_stride;
  job.workspace = workspace;
  return job;
}

}  // namespace

std::size_t matmul_input_bytes(Arithmetic arithmetic, std::size_t rows, std::size_t cols) {
  if (arithmetic == Arithmetic::Exact) return 0;
  const QuantizedLayout layout(cols);
  return std::max(rows * layout.row_bytes, layout.lone_row_bytes);
}

MatmulInput prepare_matmul_input(ThreadPool& threads, Arithmetic arithmetic, const float* x, std::size_t rows,
                                 std::size_t cols, std::byte* workspace) {
  if (arithmetic == Arithmetic::Exact) return {x, rows, cols, arithmetic, nullptr};
  const QuantizedLayout layout(cols);
  const auto quantize_row = kernels_in_use().quantize_row;
  const auto quantize = [&](std::size_t row_idx, int) {
    std::byte* row = workspace + row_idx * layout.row_bytes;
    const auto floats_at = [&](std::size_t at) { return reinterpret_cast<float*>(row + at); };
    quantize_row(x + row_idx * cols, cols,
                 {reinterpret_cast<std::int32_t*>(row), floats_at(layout.scales_at), floats_at(layout.sums32_at),
                  floats_at(layout.sums16_at), rows == 1 ? row + layout.digits_at : nullptr,
                  reinterpret_cast<std::int32_t*>(row + layout.digit_sums_at), layout.blocks});
  };
  if (rows == 1) {
    quantize(0, 0);  // microseconds: less than waking a thread
  } else {
    threads.parallel_for(rows, quantize);
  }
  return {x, rows, cols, arithmetic, workspace};
}

std::size_t matmul_workspace_bytes(int thread_count, std::size_t) {
  return static_cast<std::size_t>(thread_count) * sizeof(PanelWorkspace);
}

void matmul(ThreadPool& threads, const MatmulInput& input, std::span<const MatmulProduct> products, std::byte* workspace) {
  for (const MatmulProduct& product : products) {
    EBB_CHECK(product.w.cols == input.cols, "{} columns, input has {}", product.w.cols, input.cols);
  }
  if (products.empty() || input.rows == 0) return;
  const Split split = split_work(products, input.rows, static_cast<std::size_t>(threads.thread_count()));
  std::size_t piece_count = 0;
  for (const MatmulProduct& product : products) piece_count += split.pieces(product);
  const MatmulKernels& kernels = kernels_in_use();
  auto* workspaces = reinterpret_cast<PanelWorkspace*>(workspace);
  threads.parallel_for(piece_count, [&](std::size_t piece_idx, int thread_idx) {
    const MatmulProduct* product = products.data();
    for (; piece_idx >= split.pieces(*product); ++product) piece_idx -= split.pieces(*product);
    kernels.run(make_job(input, *product, split, piece_idx, workspaces + thread_idx));
  });
}

}  // namespace ebb::kernels
