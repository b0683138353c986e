#include "base/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>
#include <iterator>

#include "base/check.h"

namespace ebb {

std::string Digest::hex() const {
  std::string text;
  for (const std::byte byte : bytes) fmt::format_to(std::back_inserter(text), "{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

void Checksum::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Checksum::Checksum() : state_(XXH3_createState()) {
  EBB_CHECK(state_ != nullptr && XXH3_128bits_reset(state_.get()) == XXH_OK, "a checksum needs some 600 bytes");
}
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;
Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  EBB_CHECK(XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()) == XXH_OK, "{} bytes", bytes.size());
}

Digest Checksum::digest() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
  Digest digest;
  static_assert(sizeof canonical.digest == sizeof digest.bytes);
  std::memcpy(digest.bytes.data(), canonical.digest, sizeof digest.bytes);
  return digest;
}

}  // namespace ebb
