// Unwraps a Result in a test; an error ends the test with its sentence.
#pragma once

#include <stdexcept>
#include <utility>

#include "base/error.h"

namespace ebb::tests {

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}
inline void must(const Status& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

}  // namespace ebb::tests
