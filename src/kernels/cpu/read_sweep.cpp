#include "kernels/read_sweep.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/bytes.h"

namespace ebb::kernels {
namespace {

constexpr std::size_t kPieceBytes = 256 * kKiB;  // large enough that handing it out costs nothing, small enough to balance
constexpr std::size_t kPrefetchBytes = 2 * kKiB;  // ahead of the reads; the hardware's own prefetch stops at a 4 KiB page
constexpr std::size_t kLineBytes = 64;

using Quad = std::uint64_t __attribute__((vector_size(16)));  // GCC and clang; a register of every 64-bit processor

Quad load(const std::byte* at) {
  Quad quad;
  std::memcpy(&quad, at, sizeof quad);
  return quad;
}

std::uint64_t sum(const std::byte* data, std::size_t bytes) {
  Quad first{}, second{}, third{}, fourth{};
  const std::size_t whole = bytes / kLineBytes * kLineBytes;
  for (std::size_t at = 0; at < whole; at += kLineBytes) {
    __builtin_prefetch(data + at + kPrefetchBytes);
    first += load(data + at);
    second += load(data + at + 16);
    third += load(data + at + 32);
    fourth += load(data + at + 48);
  }
  const Quad sums = first + second + third + fourth;
  std::uint64_t total = sums[0] + sums[1];
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
