#include "cli/normalize.h"

#include <gtest/gtest.h>

namespace ebb::cli {
namespace {

using Words = std::vector<std::string>;

Words normal(const Words& words, Command command = Command::Run) { return normalize_flags(words, command); }

TEST(NormalizeFlags, GivesEverySpellingItsLongName) {
  EXPECT_EQ(normal({"-ctk", "f16", "-ub", "64", "-sys", "Be terse.", "-dev", "none", "-lv", "0"}),
            (Words{"--cache-type-k", "f16", "--ubatch-size", "64", "--system", "Be terse.", "--device", "none",
                   "--verbosity", "0"}));
  EXPECT_EQ(normal({"-m", "a.gguf", "--n-predict", "5", "--contextsize", "9"}),
            (Words{"--model", "a.gguf", "--predict", "5", "--ctx-size", "9"}));
}

TEST(NormalizeFlags, SplitsAtTheFirstEqualsSign) {
  EXPECT_EQ(normal({"-ctk=f16", "--temp=0", "-p=a=b", "--prompt="}),
            (Words{"--cache-type-k", "f16", "--temp", "0", "--prompt", "a=b", "--prompt", ""}));
  EXPECT_EQ(normal({"--json=false", "--raw"}), (Words{"--json=false", "--raw"}));
}

TEST(NormalizeFlags, ReadsNumbersAttachedToAShortFlag) {
  EXPECT_EQ(normal({"-n128", "-n-1", "-t4"}), (Words{"--predict", "128", "--predict", "-1", "--threads", "4"}));
}

TEST(NormalizeFlags, LeavesValuesAloneWhateverTheyLookLike) {
  EXPECT_EQ(normal({"-p", "-ctk", "-n", "-1", "-p", "--temp=3", "-p", "--"}),
            (Words{"--prompt", "-ctk", "--predict", "-1", "--prompt", "--temp=3", "--prompt", "--"}));
  EXPECT_EQ(normal({"-p"}), Words{"--prompt"});
}

TEST(NormalizeFlags, MarksUnknownSpellingsWithTwoDashes) {
  EXPECT_EQ(normal({"-xyz", "99", "--grammar", "x", "-"}), (Words{"--xyz", "99", "--grammar", "x", "-"}));
}

TEST(NormalizeFlags, KeepsWhatFollowsTwoDashes) {
  EXPECT_EQ(normal({"--ids", "--", "-ctk", "--ids"}, Command::Tokenize), (Words{"--ids", "--", "-ctk", "--ids"}));
}

TEST(NormalizeFlags, KnowsTheFlagsOfTheCommandOnly) {
  EXPECT_EQ(normal({"-r", "7"}, Command::BenchSpeed), (Words{"--repetitions", "7"}));
  EXPECT_EQ(normal({"-r", "7"}, Command::Run), (Words{"--reverse-prompt", "7"}));
}

}  // namespace
}  // namespace ebb::cli
