// Misuse by our own code: prints the values and stops. Nothing a user, a file or the network sends may reach one.
#pragma once

#include <fmt/format.h>

#include <string>

namespace ebb {

[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& values);

}  // namespace ebb

/// Cheap and always on: `EBB_CHECK(row < rows, "row {} of {}", row, rows);`
#define EBB_CHECK(condition, ...)                                                            \
  do {                                                                                       \
    if (!(condition)) ::ebb::check_failed(#condition, __FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
  } while (false)

/// Invariant walks: on in debug builds only.
#ifdef NDEBUG
#define EBB_DCHECK(condition, ...) \
  do {                             \
  } while (false)
#else
#define EBB_DCHECK(condition, ...) EBB_CHECK(condition, __VA_ARGS__)
#endif
