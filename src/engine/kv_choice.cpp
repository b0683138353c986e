#include "engine/internal/kv_choice.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string_view>

namespace ebb::engine {
namespace {

using kernels::KvType;
using kernels::KvTypes;

struct NamedType {
  std::string_view name;
  KvType type;
  bool quantized;
};
constexpr std::array<NamedType, 5> kTypes = {{{"f16", KvType::F16, false},
                                              {"bf16", KvType::BF16, false},
                                              {"f32", KvType::F32, false},
                                              {"q8_0", KvType::Q8_0, true},
                                              {"q4_0", KvType::Q4_0, true}}};

const NamedType& named(KvType type) {
  std::size_t idx = 0;
  while (kTypes[idx].type != type) ++idx;
  return kTypes[idx];
}

Result<KvType> read_type(std::string_view name) {
  for (const NamedType& entry : kTypes) {
    if (entry.name == name) return entry.type;
  }
  return fail(ErrorCode::InvalidArgument,
              fmt::format("KV type \"{}\" is not known; accepted are f16, bf16, f32, q8_0, q4_0", name));
}

KvType unpacked(KvType type) { return named(type).quantized ? KvType::F16 : type; }

}  // namespace

Result<model::KvOptions> choose_kv(const EngineOptions& options) {
  std::string_view text = options.kv_type;
  if (text.empty()) text = options.exact ? "f32" : "f16";
  const std::size_t slash = text.find('/');
  model::KvOptions kv;
  EBB_TRY_ASSIGN(kv.global.k, read_type(text.substr(0, slash)));
  EBB_TRY_ASSIGN(kv.global.v, read_type(slash == std::string_view::npos ? text : text.substr(slash + 1)));
  kv.local = kv.global;
  if (options.kv_quantize_global_only) kv.local = {unpacked(kv.global.k), unpacked(kv.global.v)};
  return kv;
}

Status check_kv(const model::KvOptions& kv, std::size_t head_dim) {
  for (const KvTypes& types : {kv.global, kv.local}) {
    if (kernels::kv_supported(types, head_dim)) continue;
    return fail(ErrorCode::InvalidArgument,
                fmt::format("keys and values in {} need heads of a multiple of {}; this model's have {} (use -ctk f16 -ctv f16)",
                            kv_types_name(types), kernels::kKvBlock, head_dim));
  }
  return {};
}

std::string kv_types_name(KvTypes types) {
  if (types.k == types.v) return std::string(named(types.k).name);
  return fmt::format("{}/{}", named(types.k).name, named(types.v).name);
}

std::string kv_name(const model::KvOptions& kv) {
  if (kv.global == kv.local) return kv_types_name(kv.global);
  return fmt::format("{}, windows {}", kv_types_name(kv.global), kv_types_name(kv.local));
}

}  // namespace ebb::engine
