// Byte counts: units, arithmetic that notices overflow, and the text form users write and read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ebb {

inline constexpr std::size_t kKiB = std::size_t{1} << 10;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kGiB = std::size_t{1} << 30;

/// a * b, or nothing when it does not fit in 64 bits. For sizes read from files.
[[nodiscard]] constexpr std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
  if (a != 0 && b > std::numeric_limits<std::uint64_t>::max() / a) return std::nullopt;
  return a * b;
}

/// a + b, or nothing when it does not fit in 64 bits.
[[nodiscard]] constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  if (b > std::numeric_limits<std::uint64_t>::max() - a) return std::nullopt;
  return a + b;
}

[[nodiscard]] constexpr std::size_t div_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }
[[nodiscard]] constexpr std::size_t round_up(std::size_t a, std::size_t step) { return div_up(a, step) * step; }

/// "64KiB", "16GiB", "1.5GB" (powers of 1000), "4096", "20 GiB" to bytes. Errors: InvalidArgument naming the text.
[[nodiscard]] Result<std::size_t> parse_bytes(std::string_view text);

/// 253113024 to "241.4 MiB".
[[nodiscard]] std::string format_bytes(std::size_t bytes);

}  // namespace ebb
