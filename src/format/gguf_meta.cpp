#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/bytes.h"
#include "format/internal/gguf.h"

namespace ebb::format {
namespace {

enum class ValueType : std::uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };
constexpr std::uint32_t kValueTypeCount = 13;

/// Bytes of one packed value; for strings and arrays the least they can take, which bounds a count before it is
/// believed.
constexpr std::uint64_t least_bytes(ValueType type) {
  switch (type) {
    case ValueType::U8:
    case ValueType::I8:
    case ValueType::Bool:
      return 1;
    case ValueType::U16:
    case ValueType::I16:
      return 2;
    case ValueType::U32:
    case ValueType::I32:
    case ValueType::F32:
      return 4;
    case ValueType::String:
    case ValueType::U64:
    case ValueType::I64:
    case ValueType::F64:
      return 8;
    case ValueType::Array:
      return 12;
  }
  return 1;
}

struct ArrayHead {
  ValueType type = ValueType::U8;
  std::uint64_t count = 0;
};

class MetaReader {
 public:
  explicit MetaReader(ByteReader& reader) : reader_(reader) {}

  Result<MetaMap> run(std::uint64_t count) {
    MetaMap meta;
    for (std::uint64_t entry_idx = 0; entry_idx < count; ++entry_idx) {
      const std::size_t start = reader_.offset();
      if (!reader_.read_string(key_)) return reader_.ended(fmt::format("metadata key {} of {}", entry_idx + 1, count));
      if (key_.empty() || key_.size() > kMaxKeyBytes) {
        return reader_.bad(start, fmt::format("metadata key {} has {} bytes; 1 to {} are accepted", entry_idx + 1,
                                              key_.size(), kMaxKeyBytes));
      }
      EBB_TRY_ASSIGN(const ValueType type, read_type());
      EBB_TRY_ASSIGN(MetaValue value, read_value(type));
      if (!meta.emplace(key_, std::move(value)).second) {
        return reader_.bad(start, fmt::format("the metadata key \"{}\" stands there a second time", printable(key_)));
      }
    }
    return meta;
  }

 private:
  Result<ValueType> read_type() {
    const std::size_t start = reader_.offset();
    std::uint32_t type = 0;
    if (!reader_.read(type)) return ended();
    if (type >= kValueTypeCount) {
      return reader_.bad(start, fmt::format("metadata \"{}\" has value type {}; 0 to {} are accepted", printable(key_),
                                            type, kValueTypeCount - 1));
    }
    return static_cast<ValueType>(type);
  }

  Result<MetaValue> read_value(ValueType type) {
    switch (type) {
      case ValueType::U8:
        return read_scalar<std::uint8_t, std::uint64_t>();
      case ValueType::U16:
        return read_scalar<std::uint16_t, std::uint64_t>();
      case ValueType::U32:
        return read_scalar<std::uint32_t, std::uint64_t>();
      case ValueType::U64:
        return read_scalar<std::uint64_t, std::uint64_t>();
      case ValueType::I8:
        return read_scalar<std::int8_t, std::int64_t>();
      case ValueType::I16:
        return read_scalar<std::int16_t, std::int64_t>();
      case ValueType::I32:
        return read_scalar<std::int32_t, std::int64_t>();
      case ValueType::I64:
        return read_scalar<std::int64_t, std::int64_t>();
      case ValueType::F32:
        return read_scalar<float, double>();
      case ValueType::F64:
        return read_scalar<double, double>();
      case ValueType::Bool: {
        const std::size_t start = reader_.offset();
        std::uint8_t value = 0;
        if (!reader_.read(value)) return ended();
        if (value > 1)
          return reader_.bad(start, fmt::format("metadata \"{}\" is a bool of value {}; 0 and 1 are accepted",
                                                printable(key_), value));
        return MetaValue(value != 0);
      }
      case ValueType::String: {
        std::string_view text;
        if (!reader_.read_string(text)) return ended();
        return MetaValue(text);
      }
      case ValueType::Array:
        return read_array();
    }
    return ended();
  }

  template <typename Stored, typename Widened>
  Result<MetaValue> read_scalar() {
    Stored value = 0;
    if (!reader_.read(value)) return ended();
    return MetaValue(static_cast<Widened>(value));
  }

  Result<ArrayHead> read_array_head() {
    const std::size_t start = reader_.offset();
    ArrayHead head;
    EBB_TRY_ASSIGN(head.type, read_type());
    if (!reader_.read(head.count)) return ended();
    const auto least = checked_mul(head.count, least_bytes(head.type));
    if (!least || *least > reader_.remaining()) {
      return reader_.bad(
          start,
          fmt::format("the array \"{}\" claims {} elements, but only {} bytes of the file are left; the download is "
                      "probably incomplete, fetch it again",
                      printable(key_), head.count, reader_.remaining()));
    }
    return head;
  }

  Result<MetaValue> read_array() {
    EBB_TRY_ASSIGN(const ArrayHead head, read_array_head());
    switch (head.type) {
      case ValueType::U8:
      case ValueType::Bool:
        return read_packed<std::uint8_t, std::uint8_t>(head);
      case ValueType::I8:
        return read_packed<std::int8_t, std::int32_t>(head);
      case ValueType::U16:
        return read_packed<std::uint16_t, std::int32_t>(head);
      case ValueType::I16:
        return read_packed<std::int16_t, std::int32_t>(head);
      case ValueType::U32:
        return read_packed<std::uint32_t, std::int32_t>(head);
      case ValueType::I32:
        return read_packed<std::int32_t, std::int32_t>(head);
      case ValueType::U64:
        return read_packed<std::uint64_t, std::int32_t>(head);
      case ValueType::I64:
        return read_packed<std::int64_t, std::int32_t>(head);
      case ValueType::F32:
        return read_packed<float, float>(head);
      case ValueType::F64:
        return read_packed<double, float>(head);
      case ValueType::String:
        return read_strings(head.count);
      case ValueType::Array: {
        EBB_TRY(skip_elements(head, 1));
        return MetaValue(OpaqueArray{head.count});
      }
    }
    return ended();
  }

  template <typename Stored, typename Kept>
  Result<MetaValue> read_packed(const ArrayHead& head) {
    std::span<const std::byte> bytes;
    if (!reader_.take(head.count * sizeof(Stored), bytes)) return ended();
    std::vector<Kept> values(static_cast<std::size_t>(head.count));
    if constexpr (std::is_same_v<Stored, Kept>) {
      if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    } else {
      for (std::size_t value_idx = 0; value_idx < values.size(); ++value_idx) {
        Stored value = 0;
        std::memcpy(&value, bytes.data() + value_idx * sizeof(Stored), sizeof(Stored));
        if constexpr (std::is_integral_v<Stored>) {
          if (!std::in_range<Kept>(value)) return MetaValue(OpaqueArray{head.count});
        }
        // NOLINTNEXTLINE(bugprone-signed-char-misuse): an i8 in a file is a number, not a character
        values[value_idx] = static_cast<Kept>(value);
      }
    }
    return MetaValue(std::move(values));
  }

  Result<MetaValue> read_strings(std::uint64_t count) {
    std::vector<std::string_view> texts(static_cast<std::size_t>(count));
    for (std::string_view& text : texts) {
      if (!reader_.read_string(text)) return ended();
    }
    return MetaValue(std::move(texts));
  }

  Status skip_elements(const ArrayHead& head, int depth) {
    if (head.type == ValueType::Array) {
      if (depth >= kMaxArrayDepth) {
        return reader_.bad(reader_.offset(), fmt::format("the array \"{}\" is nested more than {} deep",
                                                         printable(key_), kMaxArrayDepth));
      }
      for (std::uint64_t element_idx = 0; element_idx < head.count; ++element_idx) {
        EBB_TRY_ASSIGN(const ArrayHead inner, read_array_head());
        EBB_TRY(skip_elements(inner, depth + 1));
      }
      return {};
    }
    if (head.type == ValueType::String) {
      std::string_view text;
      for (std::uint64_t element_idx = 0; element_idx < head.count; ++element_idx) {
        if (!reader_.read_string(text)) return ended();
      }
      return {};
    }
    std::span<const std::byte> bytes;
    if (!reader_.take(head.count * least_bytes(head.type), bytes)) return ended();
    return {};
  }

  [[nodiscard]] tl::unexpected<Error> ended() const {
    return reader_.ended(fmt::format("metadata \"{}\"", printable(key_)));
  }

  ByteReader& reader_;
  std::string_view key_;
};

}  // namespace

Result<MetaMap> read_gguf_meta(ByteReader& reader, std::uint64_t count) { return MetaReader(reader).run(count); }

std::optional<std::uint64_t> meta_as_uint(const MetaMap& meta, std::string_view key) {
  const auto found = meta.find(key);
  if (found == meta.end()) return std::nullopt;
  if (const auto* value = std::get_if<std::uint64_t>(&found->second)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&found->second); value != nullptr && *value >= 0) {
    return static_cast<std::uint64_t>(*value);
  }
  return std::nullopt;
}

}  // namespace ebb::format
