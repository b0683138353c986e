// Text of a flag, a variable or a config value to a number, a switch or a list. Strict: the whole text must fit.
// Errors are InvalidArgument and say what is allowed; the caller adds which flag it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ebb::cli {

[[nodiscard]] Result<std::int64_t> parse_integer(std::string_view text, std::int64_t lowest, std::int64_t highest);
[[nodiscard]] Result<float> parse_real(std::string_view text, float lowest, float highest);
/// A share above 0 up to 1: "0.8" or "80%".
[[nodiscard]] Result<double> parse_share(std::string_view text);
/// true, false, yes, no, on, off, 1, 0.
[[nodiscard]] Result<bool> parse_switch(std::string_view text);
/// "512,2048"
[[nodiscard]] Result<std::vector<std::size_t>> parse_size_list(std::string_view text, std::size_t lowest,
                                                               std::size_t highest);

}  // namespace ebb::cli
