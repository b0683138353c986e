// An answer ends before the earliest stop string however its text is cut (T9).
#include "engine/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ebb::engine {
namespace {

struct Outcome {
  std::string shown;
  std::string met;
  bool operator==(const Outcome&) const = default;
};

void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << '"' << outcome.shown << "\" met \"" << outcome.met << '"';
}

/// What must come out, from the whole text: cut at the match that begins first, of those the shortest.
Outcome expected(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t cut = text.size();
  std::string met;
  for (const std::string& stop : stops) {
    const std::size_t at = stop.empty() ? text.npos : text.find(stop);
    if (at == text.npos || at > cut || (at == cut && !met.empty() && met.size() <= stop.size())) continue;
    cut = at;
    met = stop;
  }
  return {text.substr(0, cut), met};
}

Outcome streamed(std::string_view text, const std::vector<std::string>& stops, const std::vector<std::size_t>& sizes) {
  StopStrings filter(stops);
  Outcome outcome;
  for (const std::size_t size : sizes) {
    outcome.shown += filter.push(text.substr(0, size));
    text.remove_prefix(std::min(size, text.size()));
  }
  outcome.shown += filter.push(text);
  outcome.shown += filter.finish();
  outcome.met = filter.met();
  EXPECT_EQ(filter.stopped(), !outcome.met.empty());
  return outcome;
}

TEST(StopStrings, CutBeforeTheMatch) {
  StopStrings filter({"\nQuestion:"});
  EXPECT_EQ(filter.push(" Tokyo"), " Tokyo");
  EXPECT_EQ(filter.push("\nQuest"), "");
  EXPECT_EQ(filter.push("ion: Why"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push("more"), "");
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopStrings, ReleaseWhatTurnsOutToBeText) {
  StopStrings filter({"###"});
  EXPECT_EQ(filter.push("a##"), "a");
  EXPECT_EQ(filter.push("b#"), "##b");
  EXPECT_EQ(filter.finish(), "#");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopStrings, WaitForTheMatchThatBeginsFirst) {
  EXPECT_EQ(streamed("xabcdy", {"abcd", "bc"}, {4}), (Outcome{"x", "abcd"}));
  EXPECT_EQ(streamed("xabcey", {"abcd", "bc"}, {4}), (Outcome{"xa", "bc"}));
  EXPECT_EQ(streamed("xabc", {"abcd", "bc"}, {1, 1, 1}), (Outcome{"xa", "bc"}));
  EXPECT_EQ(streamed("stop!", {"stop!", "stop"}, {}), (Outcome{"", "stop"}));
}

TEST(StopStrings, LetEverythingThroughWhenThereAreNone) {
  EXPECT_EQ(streamed("any text", {}, {2, 3}), (Outcome{"any text", ""}));
  EXPECT_EQ(streamed("any text", {""}, {2, 3}), (Outcome{"any text", ""}));
}

TEST(StopStrings, GiveTheSameHoweverTheTextIsCut) {
  std::mt19937 random(3);
  const auto letters = [&](std::size_t longest) {
    std::string text(random() % (longest + 1), 'a');
    for (char& c : text) c = "aab"[random() % 3];
    return text;
  };
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (std::size_t count = random() % 4; count > 0; --count) stops.push_back(letters(6));
    const std::string text = letters(24);
    std::vector<std::size_t> sizes;
    for (std::size_t count = random() % 10; count > 0; --count) sizes.push_back(random() % 5);
    ASSERT_EQ(streamed(text, stops, sizes), expected(text, stops)) << text;
  }
}

TEST(StopStrings, ShowNoByteLaterThanTheyMust) {
  StopStrings filter({"END", "NEVER"});
  EXPECT_EQ(filter.push("xEN"), "x");
  EXPECT_EQ(filter.push("x"), "ENx");
  EXPECT_EQ(filter.push("NEVE"), "");
  EXPECT_EQ(filter.push("ND"), "NEV");
  EXPECT_TRUE(filter.stopped());
}

}  // namespace
}  // namespace ebb::engine
