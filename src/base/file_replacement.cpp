#include "base/file_replacement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>
#include <system_error>
#include <utility>

namespace ebb {
namespace {

constexpr std::string_view kFreshSuffix = ".XXXXXX";  // what mkostemp fills in
constexpr std::time_t kLeftoverSeconds = 60;

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// Whether `descriptor` is a replacement that nobody writes: the writer holds its lock, and the minute covers the moment
/// between a file's creation and its lock.
bool is_leftover(int descriptor) {
  struct stat facts {};
  return fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode) && (facts.st_mode & 07777) == (S_IRUSR | S_IWUSR) &&
         facts.st_uid == geteuid() && std::time(nullptr) - facts.st_mtime > kLeftoverSeconds &&
         flock(descriptor, LOCK_EX | LOCK_NB) == 0;
}

/// What cannot be looked at or removed stays.
void remove_leftovers(const std::filesystem::path& path) {
  const std::string stem = path.filename().string() + ".";
  std::error_code error;
  std::filesystem::directory_iterator entry(folder_of(path), error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(stem) || name.size() != stem.size() + kFreshSuffix.size() - 1) continue;
    const int descriptor = open(entry->path().c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) continue;
    if (is_leftover(descriptor)) unlink(entry->path().c_str());
    close(descriptor);
  }
}

}  // namespace

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
  remove_leftovers(path);
  std::string fresh = path.string().append(kFreshSuffix);
  const int descriptor = mkostemp(fresh.data(), O_CLOEXEC);
  if (descriptor >= 0) static_cast<void>(flock(descriptor, LOCK_EX | LOCK_NB));
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
  if (const int handle = open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); handle >= 0) {
    static_cast<void>(fsync(handle));
    close(handle);
  }
  return {};
}

}  // namespace ebb
