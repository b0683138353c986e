// How the ops that treat rows one by one share them out.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/thread_pool.h"

namespace ebb::kernels {

/// Elements that are worth a piece of their own: some microseconds of work, several times the price of handing it out.
constexpr std::size_t kPieceElements = 16384;

/// Calls body(first_row, last_row) for ranges that make up [0, rows); small inputs run on the caller and wake nobody.
template <typename Body>
void split_rows(ThreadPool& threads, std::size_t rows, std::size_t elements_per_row, Body body) {
  const std::size_t rows_per_piece =
      std::max<std::size_t>(1, kPieceElements / std::max<std::size_t>(1, elements_per_row));
  const std::size_t piece_count = (rows + rows_per_piece - 1) / rows_per_piece;
  if (piece_count <= 1) {
    body(std::size_t{0}, rows);
    return;
  }
  threads.parallel_for(piece_count, [&](std::size_t piece_idx, int) {
    body(piece_idx * rows_per_piece, std::min(rows, (piece_idx + 1) * rows_per_piece));
  });
}

}  // namespace ebb::kernels
