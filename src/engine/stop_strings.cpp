#include "engine/stop_strings.h"

#include <algorithm>
#include <utility>

namespace ebb::engine {

namespace {

std::vector<std::size_t> borders_of(std::string_view text) {
  std::vector<std::size_t> borders(text.size(), 0);
  for (std::size_t at = 1; at < text.size(); ++at) {
    std::size_t border = borders[at - 1];
    while (border > 0 && text[border] != text[at]) border = borders[border - 1];
    borders[at] = text[border] == text[at] ? border + 1 : 0;
  }
  return borders;
}

}  // namespace

StopStrings::StopStrings(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (!stop.empty()) patterns_.push_back({stop, borders_of(stop)});
  }
}

std::string StopStrings::push(std::string_view text) {
  if (stopped_) return {};
  for (const char byte : text) {
    held_ += byte;
    ++seen_;
    advance(byte);
    if (first_ && first_->begin <= earliest_open()) return stop();
  }
  // An open match may begin before a complete one, but never after it: then the loop has stopped.
  const std::size_t held_from = seen_ - held_.size();
  const std::size_t shown_bytes = earliest_open() - held_from;
  std::string shown = held_.substr(0, shown_bytes);
  held_.erase(0, shown_bytes);
  return shown;
}

std::string StopStrings::finish() {
  if (stopped_) return {};
  if (first_) return stop();
  return std::exchange(held_, {});
}

void StopStrings::advance(char byte) {
  for (Pattern& pattern : patterns_) {
    while (pattern.matched > 0 && pattern.text[pattern.matched] != byte) {
      pattern.matched = pattern.borders[pattern.matched - 1];
    }
    if (pattern.text[pattern.matched] == byte) ++pattern.matched;
    if (pattern.matched < pattern.text.size()) continue;
    const std::size_t begin = seen_ - pattern.text.size();
    // Equal beginnings: the shorter string was complete earlier and stays.
    if (!first_ || begin < first_->begin) first_ = Match{begin, pattern.text};
    pattern.matched = pattern.borders.back();
  }
}

/// Where the earliest stop string begins that the end of the text has begun to spell; the end of the text if none.
std::size_t StopStrings::earliest_open() const {
  std::size_t longest = 0;
  for (const Pattern& pattern : patterns_) longest = std::max(longest, pattern.matched);
  return seen_ - longest;
}

std::string StopStrings::stop() {
  stopped_ = true;
  met_ = std::move(first_->text);
  std::string shown = std::exchange(held_, {});
  shown.resize(first_->begin - (seen_ - shown.size()));
  return shown;
}

}  // namespace ebb::engine
