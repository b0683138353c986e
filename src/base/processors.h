// How many threads of arithmetic this machine can really run at once. Linux.
#pragma once

#include <cstddef>

namespace ebb {

/// Physical cores among the processors this process may use; at least 1. Two threads of one core share its arithmetic
/// units, so the second adds nothing to a product.
[[nodiscard]] std::size_t usable_cores();

}  // namespace ebb
