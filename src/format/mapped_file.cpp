#include "format/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ebb::format {
namespace {

tl::unexpected<Error> system_error(const std::filesystem::path& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    return fail(ErrorCode::NotFound, fmt::format("{}: no such file; check the spelling and the folder", path.string()));
  }
  if (error == EACCES || error == EPERM) {
    return fail(ErrorCode::Io,
                fmt::format("{}: no permission to read it; ask its owner, or chmod +r it", path.string()));
  }
  return fail(ErrorCode::Io, fmt::format("{}: cannot be read: {}", path.string(), std::strerror(error)));
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;  // closes what it holds
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  [[nodiscard]] int value() const { return value_; }

 private:
  int value_;
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Without O_NONBLOCK a named pipe would hold us here until somebody writes to it.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.value() < 0) return system_error(path, errno);
  struct stat facts {};
  if (::fstat(file.value(), &facts) != 0) return system_error(path, errno);
  if (S_ISDIR(facts.st_mode)) {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{}: is a folder, not a file; name a file in it", path.string()));
  }
  if (!S_ISREG(facts.st_mode)) {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{}: is not a regular file; model files are mapped, so pipes and devices cannot be used",
                            path.string()));
  }
  if (facts.st_size <= 0) {
    return fail(ErrorCode::BadFile, fmt::format("{}: is empty (0 bytes); fetch the file again", path.string()));
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (address == MAP_FAILED) return system_error(path, errno);
  return MappedFile(path, {static_cast<const std::byte*>(address), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  // munmap wants a pointer to non-const, though it writes nothing.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace ebb::format
