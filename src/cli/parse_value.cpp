#include "cli/parse_value.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <system_error>

namespace ebb::cli {

Result<std::int64_t> parse_integer(std::string_view text, std::int64_t lowest, std::int64_t highest) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < lowest || value > highest) {
    return fail(ErrorCode::InvalidArgument, fmt::format("use a whole number from {} to {}", lowest, highest));
  }
  return value;
}

Result<float> parse_real(std::string_view text, float lowest, float highest) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !std::isfinite(value) || value < static_cast<double>(lowest) || value > static_cast<double>(highest)) {
    return fail(ErrorCode::InvalidArgument, fmt::format("use a number from {} to {}", lowest, highest));
  }
  return static_cast<float>(value);
}

Result<double> parse_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (percent) value /= 100;
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > 1) {
    return fail(ErrorCode::InvalidArgument, "use a share above 0 and up to 1, such as 0.8 or 80%");
  }
  return value;
}

Result<bool> parse_switch(std::string_view text) {
  for (const std::string_view yes : {"true", "yes", "on", "1"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"false", "no", "off", "0"}) {
    if (text == no) return false;
  }
  return fail(ErrorCode::InvalidArgument, "use true or false");
}

Result<std::vector<std::size_t>> parse_size_list(std::string_view text, std::size_t lowest, std::size_t highest) {
  std::vector<std::size_t> sizes;
  while (true) {
    const std::size_t comma = text.find(',');
    const auto size =
        parse_integer(text.substr(0, comma), static_cast<std::int64_t>(lowest), static_cast<std::int64_t>(highest));
    if (!size) {
      return fail(ErrorCode::InvalidArgument,
                  fmt::format("use whole numbers from {} to {}, separated by commas", lowest, highest));
    }
    sizes.push_back(static_cast<std::size_t>(*size));
    if (comma == std::string_view::npos) return sizes;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace ebb::cli
