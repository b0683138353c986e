#include "base/file_replacement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace ebb {

FileReplacement::FileReplacement(std::filesystem::path path, std::string fresh, int descriptor)
    : path_(std::move(path)), fresh_(std::move(fresh)), descriptor_(descriptor) {}

FileReplacement::FileReplacement(FileReplacement&& other) noexcept
    : path_(std::move(other.path_)),
      fresh_(std::exchange(other.fresh_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

FileReplacement::~FileReplacement() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!fresh_.empty()) unlink(fresh_.c_str());
}

tl::unexpected<Error> FileReplacement::refused() const {
  return fail(ErrorCode::Io, fmt::format("{}: cannot be written: {}", path_.string(), std::strerror(errno)));
}

Result<FileReplacement> FileReplacement::create(std::filesystem::path path) {
  std::string fresh = path.string() + ".XXXXXX";
  const int descriptor = mkostemp(fresh.data(), O_CLOEXEC);
  FileReplacement replacement(std::move(path), descriptor < 0 ? std::string() : std::move(fresh), descriptor);
  if (descriptor < 0) return replacement.refused();
  return replacement;
}

Status FileReplacement::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return refused();
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Status FileReplacement::commit() {
  if (fsync(descriptor_) != 0 || close(std::exchange(descriptor_, -1)) != 0) return refused();
  if (std::rename(fresh_.c_str(), path_.c_str()) != 0) return refused();
  fresh_.clear();
  // The name too shall survive a power cut. A file system that cannot sync a folder has nothing more to offer.
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  if (const int handle = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); handle >= 0) {
    static_cast<void>(fsync(handle));
    close(handle);
  }
  return {};
}

}  // namespace ebb
