// Writes a file beside the one it shall replace and puts it in its place in one step: whatever happens meanwhile (a full
// disk, a kill, a power cut), the old file is whole until the new one is. Only the owner may read what is written. What a
// killed process left beside a file goes when that file is next replaced, a minute later or more.
// Called by cli/ and engine/ for saved chats.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "base/error.h"

namespace ebb {

class FileReplacement {
 public:
  /// Errors   Io with the system's reason.
  [[nodiscard]] static Result<FileReplacement> create(std::filesystem::path path);
  FileReplacement(FileReplacement&& other) noexcept;
  FileReplacement& operator=(FileReplacement&&) = delete;  // one file, one replacement
  ~FileReplacement();  // what was not committed is removed

  /// Appends. Errors: Io; the old file is as it was.
  [[nodiscard]] Status write(std::span<const std::byte> bytes);
  /// The new file is on disk and has the name when this returns. Errors: as write().
  [[nodiscard]] Status commit();

 private:
  FileReplacement(std::filesystem::path path, std::string fresh, int descriptor);
  [[nodiscard]] tl::unexpected<Error> refused() const;

  std::filesystem::path path_;
  std::string fresh_;  // the name beside; empty once committed or moved from
  int descriptor_ = -1;
};

}  // namespace ebb
