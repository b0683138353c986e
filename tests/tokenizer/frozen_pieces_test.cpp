#include "tokenizer/internal/frozen_pieces.h"

#include <gtest/gtest.h>

namespace ebb::tokenizer {
namespace {

FrozenPieces sample() {
  FrozenPieces pieces;
  pieces.add("\n", 1, false);
  pieces.add("\n\n", 2, false);
  pieces.add("\n\n\n\n", 4, false);
  pieces.add("<b>", 5, false);
  pieces.add("<bos>", 6, true);
  pieces.add("<b>oth", 7, true);
  pieces.add("\xE2\x96\x81\xE2\x96\x81", 8, false);
  pieces.finish();
  return pieces;
}

TEST(FrozenPieces, FindsTheLongest) {
  const FrozenPieces pieces = sample();
  EXPECT_EQ(pieces.match("\n\n\nx", ControlText::Literal).id, 2);
  EXPECT_EQ(pieces.match("\n\n\n\n\n", ControlText::Literal).id, 4);
  EXPECT_EQ(pieces.match("\xE2\x96\x81\xE2\x96\x81\xE2\x96\x81", ControlText::Literal).bytes, 6U);
}

TEST(FrozenPieces, LeavesControlSpellingsToText) {  // T2
  const FrozenPieces pieces = sample();
  EXPECT_EQ(pieces.match("<bos>", ControlText::Literal).id, -1);
  EXPECT_EQ(pieces.match("<bos>", ControlText::Parse).id, 6);
  EXPECT_EQ(pieces.match("<b>other", ControlText::Literal).id, 5);
  EXPECT_EQ(pieces.match("<b>other", ControlText::Parse).id, 7);
}

TEST(FrozenPieces, FindsNothingInOtherText) {
  const FrozenPieces pieces = sample();
  for (const std::string_view text : {"", "x", "<", "<bo", "<br>", " \n", "  "}) {
    EXPECT_EQ(pieces.match(text, ControlText::Parse).id, -1) << text;
  }
  EXPECT_FALSE(pieces.may_begin('x'));
  EXPECT_TRUE(pieces.may_begin('<'));
}

}  // namespace
}  // namespace ebb::tokenizer
