// The known word nearest to a mistyped one, for "did you mean" in error messages.
// Called by the command line, the settings file and doctor. Says nothing when no word is near.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ebb::cli {

/// Insertions, deletions, changes and swaps of neighbours that turn `a` into `b`; case and - against _ count nothing.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The nearest of `known`, the first among equals; nothing when more than a third of its letters would change.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

/// "; did you mean --ctx-size?", or "".
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace ebb::cli
