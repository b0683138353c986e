#include "base/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace ebb {
namespace {

constexpr std::array<DTypeInfo, kDTypeCount> kInfos = {{
    {"F32", 1, 4, 0},
    {"F16", 1, 2, 1},
    {"BF16", 1, 2, 30},
    {"Q4_0", 32, 18, 2},
    {"Q4_1", 32, 20, 3},
    {"Q5_0", 32, 22, 6},
    {"Q5_1", 32, 24, 7},
    {"Q8_0", 32, 34, 8},
    {"Q2_K", 256, 84, 10},
    {"Q3_K", 256, 110, 11},
    {"Q4_K", 256, 144, 12},
    {"Q5_K", 256, 176, 13},
    {"Q6_K", 256, 210, 14},
    {"IQ4_NL", 32, 18, 20},
    {"IQ4_XS", 256, 136, 23},
}};

}  // namespace

const DTypeInfo& dtype_info(DType dtype) { return kInfos[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_from_ggml_id(std::uint32_t ggml_id) {
  for (std::size_t idx = 0; idx < kInfos.size(); ++idx) {
    if (kInfos[idx].ggml_id == ggml_id) return static_cast<DType>(idx);
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  const auto same = [](char a, char b) {
    return std::toupper(static_cast<unsigned char>(a)) == std::toupper(static_cast<unsigned char>(b));
  };
  for (std::size_t idx = 0; idx < kInfos.size(); ++idx) {
    if (std::ranges::equal(kInfos[idx].name, name, same)) return static_cast<DType>(idx);
  }
  return std::nullopt;
}

}  // namespace ebb
