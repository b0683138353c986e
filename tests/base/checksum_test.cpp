#include "base/checksum.h"

#include <gtest/gtest.h>

#include <string>

namespace ebb {
namespace {

Digest of(std::string_view text) {
  Checksum checksum;
  checksum.add(text);
  return checksum.digest();
}

// The value for no bytes is xxHash's own published one (its command line prints it for an empty file).
TEST(Checksum, IsXxh3Of128Bits) {
  EXPECT_EQ(of("").hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(of("").hex(), Checksum().digest().hex());
}

// One, two and many blocks of the algorithm (240 bytes and 1 KiB are its borders), cut anywhere, give the same.
TEST(Checksum, DoesNotDependOnThePieces) {
  std::string text;
  for (int idx = 0; idx < 3000; ++idx) text += static_cast<char>(idx * 131 % 251);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{239}, std::size_t{1024}}) {
    Checksum checksum;
    for (std::size_t at = 0; at < text.size(); at += piece) checksum.add(std::string_view(text).substr(at, piece));
    EXPECT_EQ(checksum.digest(), of(text)) << piece;
  }
}

TEST(Checksum, NoticesEveryBit) {
  std::string text(100, 'a');
  const Digest before = of(text);
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string other = text;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(of(other).bytes, before.bytes) << bit;
  }
}

}  // namespace
}  // namespace ebb
