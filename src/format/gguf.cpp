#include "format/internal/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_set>
#include <utility>

#include "base/bytes.h"

namespace ebb::format {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kLeastMetaBytes = 8 + 1 + 4 + 1;        // key, type, value
constexpr std::uint64_t kLeastTensorBytes = 8 + 1 + 4 + 4 + 8;  // name, dimensions, type, offset

/// Names of the types that ggml has or had and Ebb does not load.
std::string type_name(std::uint32_t id) {
  static constexpr std::array<std::pair<std::uint32_t, std::string_view>, 26> kNames = {
      {{4, "Q4_2"},      {5, "Q4_3"},   {9, "Q8_1"},   {15, "Q8_K"},       {16, "IQ2_XXS"},    {17, "IQ2_XS"},
       {18, "IQ3_XXS"},  {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},      {24, "I8"},         {25, "I16"},
       {26, "I32"},      {27, "I64"},   {28, "F64"},   {29, "IQ1_M"},      {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},
       {33, "Q4_0_8_8"}, {34, "TQ1_0"}, {35, "TQ2_0"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"},
       {39, "MXFP4"},    {40, "NVFP4"}}};
  for (const auto& [known_id, name] : kNames) {
    if (known_id == id) return fmt::format("{} (id {})", name, id);
  }
  return fmt::format("unknown (id {})", id);
}

std::string accepted_types() {
  std::string names;
  for (int idx = 0; idx < kDTypeCount; ++idx) {
    if (idx > 0) names += ", ";
    names += dtype_info(static_cast<DType>(idx)).name;
  }
  return names;
}

class TensorTableReader {
 public:
  TensorTableReader(ByteReader& reader, std::uint64_t count) : reader_(reader), count_(count) {}

  /// Shapes, types and sizes; file_offset is still relative to the data section.
  Result<std::vector<TensorEntry>> run(std::uint64_t alignment) {
    std::vector<TensorEntry> tensors;
    tensors.reserve(static_cast<std::size_t>(count_));
    std::unordered_set<std::string_view> names;
    for (std::uint64_t tensor_idx = 0; tensor_idx < count_; ++tensor_idx) {
      start_ = reader_.offset();
      EBB_TRY(read_name(tensor_idx));
      if (!names.insert(name_).second) return bad("stands in the tensor table a second time");
      EBB_TRY_ASSIGN(TensorEntry tensor, read_entry());
      if (tensor.file_offset % alignment != 0) {
        return bad(fmt::format("starts at data offset {}, which is not a multiple of the alignment {}",
                               tensor.file_offset, alignment));
      }
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

 private:
  Status read_name(std::uint64_t tensor_idx) {
    if (!reader_.read_string(name_))
      return reader_.ended(fmt::format("the name of tensor {} of {}", tensor_idx + 1, count_));
    if (name_.empty() || name_.size() > kMaxTensorNameBytes) {
      return reader_.bad(start_, fmt::format("the name of tensor {} has {} bytes; 1 to {} are accepted", tensor_idx + 1,
                                             name_.size(), kMaxTensorNameBytes));
    }
    return {};
  }

  Result<TensorEntry> read_entry() {
    std::uint32_t dims = 0;
    if (!reader_.read(dims)) return ended();
    if (dims > kMaxGgufDims) return bad(fmt::format("has {} dimensions; at most {} are accepted", dims, kMaxGgufDims));
    TensorEntry tensor;
    tensor.name = std::string(name_);
    tensor.shape.resize(dims);
    // The file lists the contiguous dimension first; shapes here are slowest first.
    for (std::size_t dim_idx = dims; dim_idx-- > 0;) {
      std::uint64_t& size = tensor.shape[dim_idx];
      if (!reader_.read(size)) return ended();
      if (size == 0) return bad("has a dimension of 0; every dimension must be at least 1");
    }
    std::uint32_t type = 0;
    if (!reader_.read(type) || !reader_.read(tensor.file_offset)) return ended();
    const auto dtype = dtype_from_ggml_id(type);
    if (!dtype) {
      return fail(ErrorCode::Unsupported,
                  fmt::format("{}: tensor \"{}\" has type {}; accepted are {}. Use another quantisation of the model",
                              reader_.file(), printable(name_), type_name(type), accepted_types()));
    }
    tensor.dtype = *dtype;
    EBB_TRY_ASSIGN(tensor.bytes, size_bytes(tensor));
    return tensor;
  }

  Result<std::size_t> size_bytes(const TensorEntry& tensor) const {
    const DTypeInfo& info = dtype_info(tensor.dtype);
    const std::uint64_t row_values = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row_values % info.block_values != 0) {
      return bad(fmt::format("has rows of {} values, which is not a multiple of the {} values in a block of {}",
                             row_values, info.block_values, info.name));
    }
    auto bytes = checked_mul(row_values / info.block_values, info.block_bytes);
    for (std::size_t dim_idx = 0; bytes && dim_idx + 1 < tensor.shape.size(); ++dim_idx)
      bytes = checked_mul(*bytes, tensor.shape[dim_idx]);
    if (!bytes)
      return bad(fmt::format("has a shape whose size does not fit in 64 bits: [{}]", fmt::join(tensor.shape, ", ")));
    return static_cast<std::size_t>(*bytes);
  }

  [[nodiscard]] tl::unexpected<Error> ended() const {
    return reader_.ended(fmt::format("the entry of tensor \"{}\"", printable(name_)));
  }
  [[nodiscard]] tl::unexpected<Error> bad(std::string_view what) const {
    return reader_.bad(start_, fmt::format("tensor \"{}\" {}", printable(name_), what));
  }

  ByteReader& reader_;
  std::uint64_t count_;
  std::string_view name_;
  std::size_t start_ = 0;
};

Status check_version(const ByteReader& reader, std::uint32_t version) {
  if (version == 2 || version == 3) return {};
  if ((version & 0xffffu) == 0 && version != 0) {
    return fail(
        ErrorCode::Unsupported,
        fmt::format("{}: offset 4: a big-endian GGUF file; only little-endian files are accepted", reader.file()));
  }
  return fail(ErrorCode::Unsupported,
              fmt::format("{}: offset 4: GGUF version {}; 2 and 3 are accepted. Convert the model again with a "
                          "current converter",
                          reader.file(), version));
}

Status check_count(const ByteReader& reader, std::string_view what, std::uint64_t count, std::uint64_t limit,
                   std::uint64_t least_bytes) {
  if (count > limit)
    return reader.bad(8, fmt::format("{} {} are claimed; at most {} are accepted", count, what, limit));
  if (count * least_bytes > reader.remaining()) {
    return reader.bad(8,
                      fmt::format("{} {} are claimed, but only {} bytes of the file are left; the download is probably "
                                  "incomplete, fetch it again",
                                  count, what, reader.remaining()));
  }
  return {};
}

Result<std::uint64_t> read_alignment(const ByteReader& reader, const MetaMap& meta) {
  constexpr std::string_view kKey = "general.alignment";
  if (!meta.contains(kKey)) return kDefaultAlignment;
  const auto alignment = meta_as_uint(meta, kKey);
  if (!alignment || !std::has_single_bit(*alignment)) {
    return fail(ErrorCode::BadFile, fmt::format("{}: {} is {}; a power of two is accepted", reader.file(), kKey,
                                                alignment ? std::to_string(*alignment) : "not a whole number"));
  }
  return *alignment;
}

/// Makes offsets absolute and holds every range to the file and to its neighbours.
Status place_tensors(const ByteReader& reader, std::span<const std::byte> bytes, std::uint64_t alignment,
                     std::vector<TensorEntry>& tensors) {
  if (tensors.empty()) return {};
  const std::uint64_t position = reader.offset();
  const auto data_start = checked_add(position, (alignment - position % alignment) % alignment);
  if (!data_start) return reader.bad(position, fmt::format("the data section cannot be aligned to {}", alignment));
  std::uint64_t needed = 0;
  for (TensorEntry& tensor : tensors) {
    const auto start = checked_add(*data_start, tensor.file_offset);
    const auto end = start ? checked_add(*start, tensor.bytes) : std::nullopt;
    if (!end) {
      return fail(ErrorCode::BadFile,
                  fmt::format("{}: tensor \"{}\" of {} bytes at data offset {} ends beyond 64 bits", reader.file(),
                              printable(tensor.name), tensor.bytes, tensor.file_offset));
    }
    tensor.file_offset = *start;
    needed = std::max(needed, *end);
  }
  if (needed > bytes.size()) {
    return fail(ErrorCode::BadFile,
                fmt::format("{}: is cut short: its tensors reach to byte {}, the file has {}; the download is probably "
                            "incomplete, fetch it again",
                            reader.file(), needed, bytes.size()));
  }
  std::vector<const TensorEntry*> order;
  for (TensorEntry& tensor : tensors) {
    tensor.data = bytes.data() + tensor.file_offset;
    order.push_back(&tensor);
  }
  std::ranges::sort(order, {}, &TensorEntry::file_offset);
  for (std::size_t idx = 1; idx < order.size(); ++idx) {
    const TensorEntry& before = *order[idx - 1];
    if (before.file_offset + before.bytes > order[idx]->file_offset) {
      return fail(
          ErrorCode::BadFile,
          fmt::format("{}: offset {}: tensor \"{}\" begins inside tensor \"{}\"; each needs bytes of its own",
                      reader.file(), order[idx]->file_offset, printable(order[idx]->name), printable(before.name)));
    }
  }
  return {};
}

}  // namespace

bool is_gguf(std::span<const std::byte> bytes) {
  std::uint32_t magic = 0;
  return ByteReader(bytes, {}).read(magic) && magic == kMagic;
}

Result<GgufFile> parse_gguf(std::span<const std::byte> bytes, std::string_view file) {
  ByteReader reader(bytes, file);
  std::uint32_t magic = 0;
  if (!reader.read(magic)) return reader.ended("the magic number");
  if (magic != kMagic) return reader.bad(0, fmt::format("not a GGUF file but {}", describe_content(bytes)));
  GgufFile gguf;
  std::uint64_t tensor_count = 0;
  std::uint64_t meta_count = 0;
  if (!reader.read(gguf.version)) return reader.ended("the header");
  EBB_TRY(check_version(reader, gguf.version));
  if (!reader.read(tensor_count) || !reader.read(meta_count)) return reader.ended("the header");
  EBB_TRY(check_count(reader, "tensors", tensor_count, kMaxTensors, kLeastTensorBytes));
  EBB_TRY(check_count(reader, "metadata entries", meta_count, kMaxMetaEntries, kLeastMetaBytes));
  EBB_TRY_ASSIGN(gguf.meta, read_gguf_meta(reader, meta_count));
  EBB_TRY_ASSIGN(gguf.alignment, read_alignment(reader, gguf.meta));
  EBB_TRY_ASSIGN(gguf.tensors, TensorTableReader(reader, tensor_count).run(gguf.alignment));
  EBB_TRY(place_tensors(reader, bytes, gguf.alignment, gguf.tensors));
  return gguf;
}

}  // namespace ebb::format
