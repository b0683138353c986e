// A checksum of any number of bytes, given piece by piece: XXH3, 128 bits. It notices damage and tells things apart; it
// is no protection against somebody who forges on purpose.
// Called by engine/ for saved chats and by weights/ for a model's identity.
// Source    xxHash specification, XXH3_128bits, seed 0, in its canonical (big-endian) order.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;  // xxhash.h

namespace ebb {

struct Digest {
  std::array<std::byte, 16> bytes{};

  [[nodiscard]] std::string hex() const;  // 32 digits
  friend bool operator==(const Digest&, const Digest&) = default;
};

class Checksum {
 public:
  Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  ~Checksum();

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  /// Of all that was added so far; adding may go on.
  [[nodiscard]] Digest digest() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace ebb
