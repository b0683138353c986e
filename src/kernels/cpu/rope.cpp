#include "kernels/rope.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "kernels/internal/split_rows.h"
#include "kernels/internal/vector_kernels.h"

namespace ebb::kernels {
namespace {

struct SinCos {
  double sine;
  double cosine;
};

template <std::size_t Count>
inline double polynomial(double z, const double (&coefficient)[Count]) {
  double value = coefficient[Count - 1];
  for (std::size_t i = Count - 1; i-- > 0;) value = coefficient[i] + z * value;
  return value;
}

// Sine and cosine without branches, so that the compiler works on several angles at once; float64 throughout, error
// below 1e-9 for angles to 2^20, far below the float32 that is kept. The angle is brought to [-pi/4, pi/4] by multiples
// of pi/2 in three parts of at most 33 bits: each product with a multiple below 2^20 is exact. Taylor series to x^13
// and x^14.
inline SinCos sin_cos(double angle) {
  constexpr double kTwoOverPi = 0.63661977236758134308;
  constexpr double kHalfPiHigh = 1.57079632673412561417;        // first 33 bits of pi/2
  constexpr double kHalfPiMiddle = 6.07710050630396597660e-11;  // the next 33
  constexpr double kHalfPiLow = 2.02226624879595063154e-21;
  constexpr double kRoundToInteger = 6755399441055744.0;  // 1.5 * 2^52: its last mantissa bit counts ones
  const double shifted = angle * kTwoOverPi + kRoundToInteger;
  const double turns = shifted - kRoundToInteger;
  const double x = ((angle - turns * kHalfPiHigh) - turns * kHalfPiMiddle) - turns * kHalfPiLow;
  const double z = x * x;
  const double sine =
      x + x * z * polynomial(z, {-1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800});
  const double cosine = 1.0 + z * polynomial(z, {-1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800,
                                                 1.0 / 479001600, -1.0 / 87178291200});
  // Quarter turns 0 .. 3: (s, c), (c, -s), (-s, -c), (-c, s).
  const auto quarter = std::bit_cast<std::uint64_t>(shifted);
  const std::uint64_t swap = 0 - (quarter & 1);
  const auto sine_bits = std::bit_cast<std::uint64_t>(sine);
  const auto cosine_bits = std::bit_cast<std::uint64_t>(cosine);
  const std::uint64_t differ = (sine_bits ^ cosine_bits) & swap;
  const std::uint64_t sine_sign = (quarter & 2) << 62;
  const std::uint64_t cosine_sign = ((quarter + 1) & 2) << 62;
  return {std::bit_cast<double>(sine_bits ^ differ ^ sine_sign),
          std::bit_cast<double>(cosine_bits ^ differ ^ cosine_sign)};
}

}  // namespace

void rope_table(std::size_t first_pos, std::size_t rows, std::size_t head_dim, double base, double factor,
                float* table) {
  EBB_CHECK(first_pos + rows <= std::size_t{1} << 20, "position {}", first_pos + rows);
  const std::size_t half = head_dim / 2;
  std::vector<double> frequency(half);
  for (std::size_t e = 0; e < half; ++e)
    frequency[e] = std::pow(base, -2.0 * static_cast<double>(e) / static_cast<double>(head_dim)) / factor;
  for (std::size_t row_idx = 0; row_idx < rows; ++row_idx) {
    const auto pos = static_cast<double>(first_pos + row_idx);
    float* cosines = table + row_idx * head_dim;
    float* sines = cosines + half;
    for (std::size_t e = 0; e < half; ++e) {
      const SinCos value = sin_cos(pos * frequency[e]);
      cosines[e] = static_cast<float>(value.cosine);
      sines[e] = static_cast<float>(value.sine);
    }
  }
}

void norm_rope(ThreadPool& threads, float* x, std::size_t x_stride, const float* w, float eps, const float* table,
               std::size_t rows, std::size_t heads, std::size_t head_dim) {
  const VectorKernels& vector = vector_kernels(simd_level());
  split_rows(threads, rows, heads * head_dim, [&](std::size_t first, std::size_t last) {
    for (std::size_t row_idx = first; row_idx < last; ++row_idx)
      for (std::size_t head_idx = 0; head_idx < heads; ++head_idx)
        vector.norm_rope_head(x + row_idx * x_stride + head_idx * head_dim, w, eps, table + row_idx * head_dim,
                              head_dim);
  });
}

}  // namespace ebb::kernels
