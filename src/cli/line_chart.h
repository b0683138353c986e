// A chart of a few lines over turns as SVG, for reports. Readable on light and dark ground; no script, no font of its
// own. Called by `ebb bench memory`. Refuses nothing: empty data draw empty axes.
#pragma once

#include <string>
#include <vector>

namespace ebb::cli {

struct ChartLine {
  std::string name;
  std::vector<double> values;  // at x = 1, 2, ...
};

struct LineChart {
  std::string title;
  std::string x_label;
  std::string y_label;  // with its unit
  std::vector<ChartLine> lines;
};

[[nodiscard]] std::string svg_of(const LineChart& chart);

/// The least round number (1, 2 or 5 times a power of ten) of which at most `steps` reach `highest`.
[[nodiscard]] double round_step(double highest, int steps);

}  // namespace ebb::cli
