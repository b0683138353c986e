// The one error convention: a function that can fail for a reason outside our code returns Result<T>.
// The sentence a user reads says what happened, the number, and what to try. No exception crosses a folder.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace ebb {

enum class ErrorCode {
  InvalidArgument,  // the caller's wish cannot be met as written (exit code 2 in the terminal)
  NotFound,         // a file, folder or name does not exist
  Io,               // the operating system refused a read or a write
  BadFile,          // a file contradicts its format
  Unsupported,      // well-formed, but not something Ebb runs
  OutOfMemory,      // a budget or a device is full; `memory` holds the numbers
  ContextFull,      // more tokens than the context holds
  Cancelled,        // the user stopped it
  DeviceLost,       // the driver's context is broken; restart
};

/// Facts of a refused allocation, in bytes.
struct MemoryFacts {
  std::size_t wanted_bytes = 0;
  std::size_t free_bytes = 0;
  std::size_t reclaimable_bytes = 0;
  std::string tag = {};
  std::size_t device = 0;              // the ledger's number of it; 0 is the host
  std::vector<std::string> owners = {};     // who holds most there, with bytes
  std::vector<std::string> tried = {};      // what was given up before this refusal
  std::vector<std::string> remedies = {};   // what would help, cheapest first, with numbers
  bool later = false;                  // could fit once others let go
};

struct Error {
  ErrorCode code = ErrorCode::InvalidArgument;
  std::string message;
  std::optional<MemoryFacts> memory = std::nullopt;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

/// Makes the failed side of any Result: `return fail(ErrorCode::BadFile, fmt::format(...));`
[[nodiscard]] inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace ebb

#define EBB_CONCAT_INNER(a, b) a##b
#define EBB_CONCAT(a, b) EBB_CONCAT_INNER(a, b)

/// Returns the error of a Status expression from the enclosing function.
#define EBB_TRY(expr)                                                        \
  do {                                                                       \
    if (auto ebb_status_ = (expr); !ebb_status_) {                           \
      return tl::unexpected<::ebb::Error>(std::move(ebb_status_).error());   \
    }                                                                        \
  } while (false)

/// `EBB_TRY_ASSIGN(auto file, MappedFile::open(path));` declares `file`, or returns the error.
#define EBB_TRY_ASSIGN(lhs, expr) EBB_TRY_ASSIGN_INNER(EBB_CONCAT(ebb_result_, __LINE__), lhs, expr)
#define EBB_TRY_ASSIGN_INNER(tmp, lhs, expr)                            \
  auto tmp = (expr);                                                    \
  if (!tmp) return tl::unexpected<::ebb::Error>(std::move(tmp).error()); \
  lhs = std::move(tmp).value()
