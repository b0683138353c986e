#include "engine/internal/kv_types.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace ebb::engine {
namespace {

using kernels::KvType;

constexpr std::array<std::pair<KvType, std::string_view>, 5> kNames{{{KvType::F16, "f16"},
                                                                     {KvType::BF16, "bf16"},
                                                                     {KvType::F32, "f32"},
                                                                     {KvType::Q8_0, "q8_0"},
                                                                     {KvType::Q4_0, "q4_0"}}};

Result<KvType> parse_type(std::string_view name) {
  for (const auto& [type, known] : kNames) {
    if (name == known) return type;
  }
  return fail(ErrorCode::InvalidArgument, fmt::format("KV type \"{}\" is not known; accepted are f16, bf16, f32, q8_0, q4_0", name));
}

}  // namespace

std::string_view kv_type_name(KvType type) {
  for (const auto& [known, name] : kNames) {
    if (type == known) return name;
  }
  return "";
}

std::string kv_types_name(kernels::KvTypes types) {
  const std::string_view keys = kv_type_name(types.k);
  return types.k == types.v ? std::string(keys) : fmt::format("{}/{}", keys, kv_type_name(types.v));
}

Result<kernels::KvTypes> choose_kv_types(const EngineOptions& options) {
  const std::string_view text = options.kv_type;
  if (text.empty()) {
    const KvType type = options.exact ? KvType::F32 : KvType::F16;
    return kernels::KvTypes{type, type};
  }
  const std::size_t slash = text.find('/');
  EBB_TRY_ASSIGN(const KvType keys, parse_type(text.substr(0, slash)));
  if (slash == std::string_view::npos) return kernels::KvTypes{keys, keys};
  EBB_TRY_ASSIGN(const KvType values, parse_type(text.substr(slash + 1)));
  return kernels::KvTypes{keys, values};
}

}  // namespace ebb::engine
