#include "format/internal/byte_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ebb::format {

tl::unexpected<Error> ByteReader::ended(std::string_view what) const {
  return fail(ErrorCode::BadFile, fmt::format("{}: offset {}: the file ends inside {} (it has {} bytes); the download "
                                              "is probably incomplete, fetch it again",
                                              file_, offset_, what, bytes_.size()));
}

tl::unexpected<Error> ByteReader::bad(std::size_t offset, std::string_view sentence) const {
  return fail(ErrorCode::BadFile, fmt::format("{}: offset {}: {}", file_, offset, sentence));
}

std::string printable(std::string_view text) {
  constexpr std::size_t kShown = 80;
  std::string out;
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  if (text.size() > kShown) out += fmt::format("... ({} bytes)", text.size());
  return out;
}

std::string describe_content(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 64));
  struct Known {
    std::string_view prefix;
    std::string_view what;
  };
  static constexpr std::array<Known, 18> kKnown = {{
      {"GGUF", "a GGUF file"},
      {"PK\x03\x04", "a zip archive (PyTorch .bin and .pt checkpoints are zips; convert them to safetensors)"},
      {"\x80\x02", "a Python pickle (an old PyTorch checkpoint; convert it to safetensors)"},
      {"version https://git-lfs", "a Git LFS pointer, not the file itself (run git lfs pull)"},
      {"<!DOCTYPE", "a web page (the download gave a page, perhaps to log in, in place of the file)"},
      {"<!doctype", "a web page (the download gave a page, perhaps to log in, in place of the file)"},
      {"<html", "a web page (the download gave a page, perhaps to log in, in place of the file)"},
      {"\x1f\x8b", "a gzip archive (unpack it first)"},
      {"\x28\xb5\x2f\xfd", "a zstd archive (unpack it first)"},
      {"\xfd"
       "7zXZ",
       "an xz archive (unpack it first)"},
      {"tjgg", "a GGML file from before GGUF (convert the original model again)"},
      {"lmgg", "a GGML file from before GGUF (convert the original model again)"},
      {"fmgg", "a GGML file from before GGUF (convert the original model again)"},
      {"algg", "a GGML adapter from before GGUF (convert it again)"},
      {"FUGG", "a GGUF file in big-endian byte order"},
      {"\x89HDF", "an HDF5 file (Keras weights)"},
      {"\x7f"
       "ELF",
       "a program"},
      {"\x89PNG", "a PNG picture"},
  }};
  for (const Known& known : kKnown) {
    if (text.starts_with(known.prefix)) return std::string(known.what);
  }
  if (text.size() > 9 && text[8] == '{' && text.substr(4, 4) == std::string_view("\0\0\0\0", 4))
    return "a safetensors file";
  if (text.find_first_not_of('\0') == std::string_view::npos) return "zero bytes only (an unfinished download?)";
  if (text.starts_with('{') || text.starts_with('[')) return "JSON text";
  std::string hex;
  for (const char c : text.substr(0, 8))
    hex += fmt::format("{}{:02x}", hex.empty() ? "" : " ", static_cast<unsigned char>(c));
  return fmt::format("something else (its first bytes are {})", hex);
}

}  // namespace ebb::format
