#include "kernels/read_sweep.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/bytes.h"

namespace ebb::kernels {
namespace {

constexpr std::size_t kPieceBytes = 256 * kKiB;  // large enough that handing it out costs nothing, small enough to balance
constexpr std::size_t kPrefetchBytes = 2 * kKiB;  // ahead of the reads; the hardware's own prefetch stops at a 4 KiB page
constexpr std::size_t kLine = 64;

std::uint64_t sum(const std::byte* data, std::size_t bytes) {
  std::array<std::uint64_t, 8> sums{};
  const std::size_t whole = bytes / kLine * kLine;
  for (std::size_t at = 0; at < whole; at += kLine) {
    __builtin_prefetch(data + at + kPrefetchBytes);
    std::array<std::uint64_t, 8> words;
    std::memcpy(words.data(), data + at, kLine);
    for (std::size_t idx = 0; idx < words.size(); ++idx) sums[idx] += words[idx];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t part : sums) total += part;
  for (std::size_t at = whole; at < bytes; ++at) total += std::to_integer<std::uint64_t>(data[at]);
  return total;
}

}  // namespace

std::uint64_t read_sweep(ThreadPool& threads, std::span<const TensorView> tensors) {
  std::atomic<std::uint64_t> total{0};
  for (const TensorView& tensor : tensors) {
    const std::size_t bytes = tensor.bytes();
    threads.parallel_for(div_up(bytes, kPieceBytes), [&](std::size_t piece_idx, int) {
      const std::size_t begin = piece_idx * kPieceBytes;
      total.fetch_add(sum(tensor.data + begin, std::min(kPieceBytes, bytes - begin)), std::memory_order_relaxed);
    });
  }
  return total.load();
}

}  // namespace ebb::kernels
