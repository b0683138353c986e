// Whole characters only, however the bytes are cut (T8).
#include "tokenizer/text_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string_view>
#include <vector>

#include "tokenizer/internal/utf8.h"

namespace ebb::tokenizer {
namespace {

constexpr std::string_view kFamily = "👨‍👩‍👧‍👦";

std::string stream_in_pieces(std::string_view bytes, const std::vector<std::size_t>& sizes) {
  TextStream stream;
  std::string out;
  for (const std::size_t size : sizes) {
    const std::string shown = stream.push(bytes.substr(0, size));
    EXPECT_TRUE(is_valid_utf8(shown));
    out += shown;
    bytes.remove_prefix(std::min(size, bytes.size()));
  }
  out += stream.push(bytes);
  return out + stream.finish();
}

TEST(TextStream, HoldsBackACharacterUntilItsLastByte) {
  TextStream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80z"), "😀z");
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, EndsAHeldTailWithOneReplacement) {
  TextStream stream;
  EXPECT_EQ(stream.push("\xF0\x9F\x98"), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, ReplacesBytesThatCannotGoOnAtOnce) {
  TextStream stream;
  EXPECT_EQ(stream.push("\x80"), "\uFFFD");
  EXPECT_EQ(stream.push("\xE4\xBD"), "");
  EXPECT_EQ(stream.push("H"), "\uFFFDH");
  EXPECT_EQ(stream.push("\xED"), "");
  EXPECT_EQ(stream.push("\xA0"), "\uFFFD\uFFFD");
  EXPECT_EQ(stream.push("\xC0\xFF\xF5"), "\uFFFD\uFFFD\uFFFD");
}

TEST(TextStream, GivesEveryTextByteByByte) {
  for (const std::string_view text : {kFamily, std::string_view("\0é中\U0010FFFF", 10), std::string_view("")}) {
    EXPECT_EQ(stream_in_pieces(text, std::vector<std::size_t>(text.size(), 1)), text);
  }
}

TEST(TextStream, DoesNotDependOnWhereRandomBytesAreCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (std::size_t count = random() % 24; count > 0; --count) {
      // Mostly lead and continuation bytes, so that sequences begin, go on and break off.
      constexpr std::string_view kLikely = "\x80\xBF\xA0\x9F\x90\x8F\xC2\xE0\xE4\xED\xEF\xF0\xF4\x61";
      bytes += random() % 4 == 0 ? static_cast<char>(random() % 256) : kLikely[random() % kLikely.size()];
    }
    std::vector<std::size_t> sizes;
    for (std::size_t count = random() % 8; count > 0; --count) sizes.push_back(random() % 5);
    ASSERT_EQ(stream_in_pieces(bytes, sizes), repaired_utf8(bytes));
  }
}

}  // namespace
}  // namespace ebb::tokenizer
