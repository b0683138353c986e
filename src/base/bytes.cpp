#include "base/bytes.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

namespace ebb {

Result<std::size_t> parse_bytes(std::string_view text) {
  const auto bad = [&] {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("\"{}\" is not a size; write a number and a unit, for instance 512MiB or 20GiB", text));
  };
  double number = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || !(number >= 0)) return bad();
  std::string unit;
  for (const char c : text.substr(static_cast<std::size_t>(rest - text.data()))) {
    if (c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  static constexpr std::array<std::pair<std::string_view, double>, 14> kUnits = {{{"", 1},
                                                                                  {"b", 1},
                                                                                  {"k", 1024},
                                                                                  {"kib", 1024},
                                                                                  {"kb", 1e3},
                                                                                  {"m", 1048576},
                                                                                  {"mib", 1048576},
                                                                                  {"mb", 1e6},
                                                                                  {"g", 1073741824},
                                                                                  {"gib", 1073741824},
                                                                                  {"gb", 1e9},
                                                                                  {"t", 1099511627776},
                                                                                  {"tib", 1099511627776},
                                                                                  {"tb", 1e12}}};
  for (const auto& [name, factor] : kUnits) {
    if (unit != name) continue;
    const double bytes = std::round(number * factor);
    if (bytes > 9.0e18) return bad();
    return static_cast<std::size_t>(bytes);
  }
  return bad();
}

std::string format_bytes(std::size_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= kGiB) return fmt::format("{:.2f} GiB", value / static_cast<double>(kGiB));
  if (bytes >= kMiB) return fmt::format("{:.1f} MiB", value / static_cast<double>(kMiB));
  if (bytes >= kKiB) return fmt::format("{:.1f} KiB", value / static_cast<double>(kKiB));
  return fmt::format("{} B", bytes);
}

}  // namespace ebb
