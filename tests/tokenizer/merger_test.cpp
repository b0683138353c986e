// The order of merges, against the plainest possible program for it, on random vocabularies and texts.
#include "tokenizer/internal/merger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace ebb::tokenizer {
namespace {

/// Merges the best pair of the whole text, again and again: smallest rank, longest left side, leftmost.
std::vector<std::string> merged_plainly(std::string_view text, const std::map<std::string, Rank>& ranks) {
  std::vector<std::string> parts;
  for (const char c : text) parts.emplace_back(1, c);
  while (true) {
    std::tuple<Rank, long, std::size_t> best{kNeverMerged, 0, 0};
    for (std::size_t at = 0; at + 1 < parts.size(); ++at) {
      const auto found = ranks.find(parts[at] + parts[at + 1]);
      if (found == ranks.end() || ranks.count(parts[at]) == 0 || ranks.count(parts[at + 1]) == 0) continue;
      best = std::min(best, {found->second, -static_cast<long>(parts[at].size()), at});
    }
    if (std::get<0>(best) == kNeverMerged) return parts;
    const std::size_t at = std::get<2>(best);
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

std::string random_text(std::mt19937& random, std::string_view letters, std::size_t longest) {
  std::string text;
  for (std::size_t count = 1 + random() % longest; count > 0; --count) text += letters[random() % letters.size()];
  return text;
}

class MergerOnRandomVocabularies : public ::testing::TestWithParam<std::string_view> {};

TEST_P(MergerOnRandomVocabularies, MergesLikeThePlainestProgram) {
  std::mt19937 random(11);
  for (int round = 0; round < 150; ++round) {
    std::vector<std::string> pieces;
    std::vector<TokenType> types;
    for (int byte = 0; byte < 256; ++byte) {
      constexpr std::string_view kHex = "0123456789ABCDEF";
      pieces.push_back(std::string("<0x") + kHex[static_cast<std::size_t>(byte / 16)] +
                       kHex[static_cast<std::size_t>(byte % 16)] + '>');
      types.push_back(TokenType::Byte);
    }
    // All letters but 'x' have a piece; 'x' must come out as its byte and stop merges.
    std::set<std::string> learned = {"a", "b", "c", " "};
    for (int count = 0; count < 40; ++count) learned.insert(random_text(random, GetParam(), 6));
    std::vector<std::string> order(learned.begin(), learned.end());
    std::shuffle(order.begin(), order.end(), random);
    std::map<std::string, Rank> rank_of;
    std::vector<Rank> ranks(256, kNeverMerged);
    for (const std::string& piece : order) {
      rank_of[piece] = static_cast<Rank>(rank_of.size() + 1);
      ranks.push_back(rank_of[piece]);
      pieces.push_back(piece);
      types.push_back(TokenType::Normal);
    }
    const std::vector<std::string_view> views(pieces.begin(), pieces.end());
    const auto vocabulary = Vocabulary::build(views, types, ranks);
    ASSERT_TRUE(vocabulary.has_value()) << vocabulary.error().message;
    Merger merger(*vocabulary);
    for (int count = 0; count < 40; ++count) {
      const std::string text = random_text(random, "aabc x", 40);
      std::vector<TokenId> ids;
      merger.encode(text, ids);
      std::vector<std::string> parts;
      for (const TokenId id : ids) parts.emplace_back(vocabulary->text(id));
      ASSERT_EQ(parts, merged_plainly(text, rank_of)) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Letters, MergerOnRandomVocabularies, ::testing::Values("a", "ab", "aab c", " a"));

}  // namespace
}  // namespace ebb::tokenizer
