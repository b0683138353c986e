#include "cli/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace ebb::cli {
namespace {

TEST(Suggest, CountsInsertionsDeletionsChangesAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("temp", ""), 4U);
  EXPECT_EQ(edit_distance("", "temp"), 4U);
  EXPECT_EQ(edit_distance("temp", "tmp"), 1U);
  EXPECT_EQ(edit_distance("temp", "tempo"), 1U);
  EXPECT_EQ(edit_distance("temp", "teap"), 1U);
  EXPECT_EQ(edit_distance("temp", "tepm"), 1U);
  EXPECT_EQ(edit_distance("--CTX_size", "--ctx-size"), 0U);
}

TEST(Suggest, FindsTheNearestAndTheFirstAmongEquals) {
  const std::vector<std::string> known{"--temp", "--top-k", "--top-p", "--threads"};
  EXPECT_EQ(nearest("--tmp", known), "--temp");
  EXPECT_EQ(nearest("--top-q", known), "--top-k");
  EXPECT_EQ(nearest("--thread", known), "--threads");
  EXPECT_EQ(did_you_mean("--tepm", known), "; did you mean --temp?");
}

TEST(Suggest, SaysNothingWhenNothingIsNear) {
  const std::vector<std::string> known{"--temp", "--top-k"};
  EXPECT_EQ(nearest("--grammar-file", known), std::nullopt);
  EXPECT_EQ(did_you_mean("", known), "");
  EXPECT_EQ(nearest("x", std::vector<std::string>{}), std::nullopt);
}

}  // namespace
}  // namespace ebb::cli
