#include "format/internal/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/bytes.h"
#include "format/internal/byte_reader.h"
#include "format/internal/json_reader.h"

namespace ebb::format {
namespace {

constexpr std::uint64_t kLengthBytes = 8;

std::optional<std::uint64_t> bits_of(std::string_view dtype) {
  static constexpr std::array<std::pair<std::string_view, std::uint64_t>, 22> kBits = {
      {{"BOOL", 8},        {"U8", 8},          {"I8", 8},      {"U16", 16},    {"I16", 16},    {"F16", 16},
       {"BF16", 16},       {"U32", 32},        {"I32", 32},    {"F32", 32},    {"U64", 64},    {"I64", 64},
       {"F64", 64},        {"C64", 64},        {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F4", 4},
       {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}}};
  for (const auto& [name, bits] : kBits) {
    if (name == dtype) return bits;
  }
  return std::nullopt;
}

struct HeaderEntry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::uint64_t>> shape;
  std::optional<std::vector<std::uint64_t>> offsets;
};

/// {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, "__metadata__": {"key": "text"}}
class HeaderHandler final : public JsonHandler {
 public:
  std::string on_open(int depth, JsonKind kind) override {
    if (depth < 2) return kind == JsonKind::Object ? "" : unexpected();
    if (depth > 2 || in_metadata_ || kind != JsonKind::Array) return unexpected();
    if (field_ == "shape") list_ = &entry_.shape.emplace();
    if (field_ == "data_offsets") list_ = &entry_.offsets.emplace();
    return list_ == nullptr ? unexpected() : "";
  }

  std::string on_close(int depth) override {
    list_ = nullptr;
    if (depth != 1 || in_metadata_) return "";
    if (!entry_.dtype || !entry_.shape || !entry_.offsets || entry_.offsets->size() != 2) {
      return fmt::format("tensor \"{}\" needs dtype, shape and two data_offsets", printable(entry_.name));
    }
    entries.push_back(std::move(entry_));
    return "";
  }

  std::string on_key(int depth, std::string_view key) override {
    if (depth == 1) {
      if (!names_.emplace(key).second) return fmt::format("the header names \"{}\" twice", printable(key));
      in_metadata_ = key == "__metadata__";
      if (key.size() > kMaxSafetensorNameBytes)
        return fmt::format("a tensor name has {} bytes; at most {} are accepted", key.size(), kMaxSafetensorNameBytes);
      if (entries.size() >= kMaxSafetensors)
        return fmt::format("the header names more than {} tensors", kMaxSafetensors);
      entry_ = HeaderEntry{};
      entry_.name = key;
      return "";
    }
    if (in_metadata_) return "";
    field_ = key;
    const bool again = (key == "dtype" && entry_.dtype) || (key == "shape" && entry_.shape) ||
                       (key == "data_offsets" && entry_.offsets);
    return again ? fmt::format("tensor \"{}\" has the field {} twice", printable(entry_.name), key) : "";
  }

  std::string on_scalar(int depth, const JsonScalar& scalar) override {
    if (depth < 2) return unexpected();
    if (in_metadata_) return scalar.kind == JsonKind::String ? "" : unexpected();
    if (list_ != nullptr) {
      if (scalar.kind != JsonKind::WholeNumber)
        return fmt::format("tensor \"{}\": {} may hold whole numbers only", printable(entry_.name), field_);
      if (list_->size() >= kMaxSafetensorDims) {
        return fmt::format("tensor \"{}\": {} has more than {} numbers", printable(entry_.name), field_,
                           kMaxSafetensorDims);
      }
      list_->push_back(scalar.number);
      return "";
    }
    if (field_ != "dtype" || scalar.kind != JsonKind::String) return unexpected();
    entry_.dtype = std::string(scalar.text);
    return "";
  }

  std::vector<HeaderEntry> entries;

 private:
  [[nodiscard]] std::string unexpected() const {
    if (entry_.name.empty()) return "the header is not an object of tensors";
    return fmt::format("the header's entry \"{}\" is not of the form dtype, shape, data_offsets",
                       printable(entry_.name));
  }

  HeaderEntry entry_;
  std::string field_;
  std::vector<std::uint64_t>* list_ = nullptr;  // the list being filled
  bool in_metadata_ = false;
  std::unordered_set<std::string> names_;
};

/// {"metadata": {...}, "weight_map": {"name": "model-00001-of-00002.safetensors"}}
class IndexHandler final : public JsonHandler {
 public:
  std::string on_open(int depth, JsonKind kind) override {
    const bool expected = depth == 0 ? kind == JsonKind::Object : !in_map_ || (depth == 1 && kind == JsonKind::Object);
    return expected ? "" : "weight_map must be an object of tensor names and file names";
  }
  std::string on_close(int) override { return ""; }

  std::string on_key(int depth, std::string_view key) override {
    if (depth == 1) {
      in_map_ = key == "weight_map";
      if (in_map_ && found) return "weight_map stands there twice";
      found = found || in_map_;
    }
    if (depth == 2 && in_map_) name_ = key;
    return "";
  }

  std::string on_scalar(int depth, const JsonScalar& scalar) override {
    if (depth == 0) return "the index is not a JSON object";
    if (!in_map_) return "";
    if (depth != 2 || scalar.kind != JsonKind::String)
      return "weight_map must be an object of tensor names and file names";
    const std::string_view file = scalar.text;
    const bool plain = file.size() <= 255 && file.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
    if (!plain || !file.ends_with(".safetensors") || file.starts_with('.')) {
      return fmt::format(
          "weight_map sends \"{}\" to \"{}\"; plain names of .safetensors files in the same folder are accepted",
          printable(name_), printable(file));
    }
    if (!weight_map.emplace(name_, file).second) return fmt::format("weight_map names \"{}\" twice", printable(name_));
    if (weight_map.size() > kMaxSafetensors)
      return fmt::format("weight_map names more than {} tensors", kMaxSafetensors);
    return "";
  }

  std::map<std::string, std::string> weight_map;
  bool found = false;

 private:
  std::string name_;
  bool in_map_ = false;
};

Result<SafetensorsEntry> check_entry(const HeaderEntry& entry, std::span<const std::byte> data,
                                     std::uint64_t data_start, std::string_view file) {
  const auto bad = [&](std::string_view what) {
    return fail(ErrorCode::BadFile, fmt::format("{}: tensor \"{}\" {}", file, printable(entry.name), what));
  };
  const auto bits_each = bits_of(*entry.dtype);
  if (!bits_each) {
    return fail(ErrorCode::Unsupported, fmt::format("{}: tensor \"{}\" has the unknown type \"{}\"", file,
                                                    printable(entry.name), printable(*entry.dtype)));
  }
  std::optional<std::uint64_t> bits = *bits_each;
  for (const std::uint64_t size : *entry.shape) bits = bits ? checked_mul(*bits, size) : bits;
  if (!bits)
    return bad(fmt::format("has a shape whose size does not fit in 64 bits: [{}]", fmt::join(*entry.shape, ", ")));
  const std::uint64_t begin = (*entry.offsets)[0];
  const std::uint64_t end = (*entry.offsets)[1];
  if (begin > end) return bad(fmt::format("ends at {} before it begins at {}", end, begin));
  if (*bits % 8 != 0 || end - begin != *bits / 8) {
    return bad(fmt::format("has {} bytes at data_offsets [{}, {}], but [{}] of {} takes {}", end - begin, begin, end,
                           fmt::join(*entry.shape, ", "), *entry.dtype, *bits / 8));
  }
  if (end > data.size()) {
    return bad(
        fmt::format("ends at byte {} of the data, but the file has only {}: it is cut short, probably an incomplete "
                    "download; fetch it "
                    "again",
                    end, data.size()));
  }
  return SafetensorsEntry{entry.name, *entry.dtype, *entry.shape, data_start + begin,
                          data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))};
}

Status check_no_holes(const std::vector<SafetensorsEntry>& tensors, std::uint64_t data_start, std::uint64_t file_bytes,
                      std::string_view file) {
  std::uint64_t end = data_start;
  std::string_view before = "the header";
  for (const SafetensorsEntry& tensor : tensors) {
    if (tensor.file_offset != end) {
      return fail(
          ErrorCode::BadFile,
          fmt::format(
              "{}: offset {}: tensor \"{}\" {} \"{}\", which ends at {}; the data must follow without holes or overlap",
              file, tensor.file_offset, printable(tensor.name),
              tensor.file_offset < end ? "begins inside" : "leaves a hole after", printable(before), end));
    }
    end += tensor.data.size();
    before = tensor.name;
  }
  if (end == file_bytes) return {};
  return fail(ErrorCode::BadFile,
              fmt::format("{}: offset {}: the last tensor ends here, but the file has {} bytes; nothing may follow",
                          file, end, file_bytes));
}

}  // namespace

bool looks_like_safetensors(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, {});
  std::uint64_t header_bytes = 0;
  char first = 0;
  return reader.read(header_bytes) && header_bytes <= kMaxHeaderBytes && reader.read(first) && first == '{';
}

Result<std::vector<SafetensorsEntry>> parse_safetensors(std::span<const std::byte> bytes, std::string_view file) {
  ByteReader reader(bytes, file);
  std::uint64_t header_bytes = 0;
  if (!reader.read(header_bytes)) return reader.ended("the header length");
  if (header_bytes > kMaxHeaderBytes) {
    return reader.bad(
        0, fmt::format("the header would have {} bytes, at most {} are accepted; not a safetensors file but {}",
                       header_bytes, kMaxHeaderBytes, describe_content(bytes)));
  }
  std::span<const std::byte> header;
  if (!reader.take(header_bytes, header)) return reader.ended(fmt::format("the header of {} bytes", header_bytes));
  if (header.empty() || header.front() != std::byte{'{'}) {
    return reader.bad(kLengthBytes, fmt::format("the header does not start with {{; not a safetensors file but {}",
                                                describe_content(bytes)));
  }
  HeaderHandler handler;
  EBB_TRY(read_json(header, kLengthBytes, file, handler));
  const std::uint64_t data_start = kLengthBytes + header_bytes;
  const auto data = bytes.subspan(static_cast<std::size_t>(data_start));
  std::vector<SafetensorsEntry> tensors;
  tensors.reserve(handler.entries.size());
  for (const HeaderEntry& entry : handler.entries) {
    EBB_TRY_ASSIGN(SafetensorsEntry tensor, check_entry(entry, data, data_start, file));
    tensors.push_back(std::move(tensor));
  }
  // An empty tensor shares its offset with its neighbour and comes first.
  std::ranges::sort(tensors, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.file_offset, a.data.size()) < std::pair(b.file_offset, b.data.size());
  });
  EBB_TRY(check_no_holes(tensors, data_start, bytes.size(), file));
  return tensors;
}

Result<std::map<std::string, std::string>> parse_safetensors_index(std::span<const std::byte> bytes,
                                                                   std::string_view file) {
  IndexHandler handler;
  EBB_TRY(read_json(bytes, 0, file, handler));
  if (handler.weight_map.empty()) {
    return fail(ErrorCode::BadFile,
                fmt::format("{}: has no weight_map; an index of safetensors shards is accepted", file));
  }
  return std::move(handler.weight_map);
}

}  // namespace ebb::format
