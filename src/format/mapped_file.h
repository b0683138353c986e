// One file, mapped read-only for as long as the object lives.
// Refuses what cannot be a model file: folders, devices and pipes, empty files. Copies nothing and locks nothing:
// a program that shortens the file meanwhile makes later reads fault, so model files are replaced, never rewritten.
// Called inside format/ only; everybody else sees ranges of it through ModelDirectory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "base/error.h"

namespace ebb::format {

class MappedFile {
 public:
  /// Errors   NotFound; InvalidArgument for anything but a regular file; BadFile when empty; Io naming the system's
  /// reason.
  [[nodiscard]] static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;  // owns the mapping
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace ebb::format
