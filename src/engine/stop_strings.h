// Ends an answer before the earliest of some stop strings, however the text is cut into pieces.
// Text that may still become a stop string is held back, so no byte of one is ever shown, and nothing else is lost.
// Called by the generation loop, between TextStream and the caller. The result depends on the whole text alone:
// the match that begins first, of those the shortest.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::engine {

class StopStrings {
 public:
  /// Empty strings are left out.
  explicit StopStrings(const std::vector<std::string>& stops);

  /// Adds whole characters and returns those that may be shown now. Empty once stopped.
  [[nodiscard]] std::string push(std::string_view text);
  /// The answer ended for another reason: returns what was held back, or less if a stop string stands in it.
  [[nodiscard]] std::string finish();

  [[nodiscard]] bool stopped() const { return stopped_; }
  /// The stop string met; empty before.
  [[nodiscard]] const std::string& met() const { return met_; }

 private:
  /// One stop string and how much of it the text's end spells (Knuth, Morris, Pratt).
  struct Pattern {
    std::string text;
    std::vector<std::size_t> borders;  // [text]: longest proper border of each prefix
    std::size_t matched = 0;
  };
  struct Match {
    std::size_t begin;  // into all text so far
    std::string text;
  };

  void advance(char byte);
  [[nodiscard]] std::size_t earliest_open() const;
  std::string stop();

  std::vector<Pattern> patterns_;
  std::optional<Match> first_;  // earliest complete one; not final while an earlier one is open
  std::string held_;            // the end of the text, not yet shown
  std::size_t seen_ = 0;        // bytes of text so far
  bool stopped_ = false;
  std::string met_;
};

}  // namespace ebb::engine
