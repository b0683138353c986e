#include "cli/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace ebb::cli {

namespace {

constexpr double kWidth = 760, kHeight = 420;
constexpr double kLeft = 74, kRight = 20, kTop = 48, kBottom = 92;
constexpr std::size_t kLegendColumns = 4;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;

// Apart for people who see few colours too; the dashes tell the lines apart without any.
struct Stroke {
  const char* colour;
  const char* dashes;
};
constexpr std::array<Stroke, 4> kStrokes{
    {{"#d55e00", ""}, {"#0072b2", "8 4"}, {"#009e73", "2 4"}, {"#cc79a7", "10 3 2 3"}}};

std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return result;
}

struct Scale {
  double x_count;
  double highest;
  [[nodiscard]] double x(std::size_t turn) const {
    return kLeft + (x_count > 1 ? (static_cast<double>(turn) - 1) / (x_count - 1) : 0.5) * kPlotWidth;
  }
  [[nodiscard]] double y(double value) const { return kTop + (1 - value / highest) * kPlotHeight; }
};

std::string axes(const LineChart& chart, const Scale& scale, double step, std::size_t count) {
  std::string text;
  for (int tick = 0; tick * step <= scale.highest * 1.0001; ++tick) {
    const double y = scale.y(tick * step);
    text += fmt::format("<line class=\"grid\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"/>\n", kLeft, y,
                        kLeft + kPlotWidth, y);
    text += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n", kLeft - 8, y + 4, tick * step);
  }
  const std::size_t every = std::max<std::size_t>(1, (count + 11) / 12);
  for (std::size_t turn = 1; turn <= count; turn += every) {
    text += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", scale.x(turn),
                        kTop + kPlotHeight + 18, turn);
  }
  text += fmt::format("<line class=\"axis\" x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\"/>\n", kLeft, kTop + kPlotHeight,
                      kLeft + kPlotWidth);
  text += fmt::format("<line class=\"axis\" x1=\"{0}\" y1=\"{1}\" x2=\"{0}\" y2=\"{2}\"/>\n", kLeft, kTop,
                      kTop + kPlotHeight);
  text += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", kLeft + kPlotWidth / 2,
                      kTop + kPlotHeight + 40, plain(chart.x_label));
  text += fmt::format("<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                      kTop + kPlotHeight / 2, plain(chart.y_label));
  return text;
}

std::string line(const ChartLine& data, const Stroke& stroke, const Scale& scale) {
  std::string points, dots;
  for (std::size_t i = 0; i < data.values.size(); ++i) {
    const double x = scale.x(i + 1), y = scale.y(data.values[i]);
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x, y);
    dots +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}, {}: {:g}</title></circle>\n", x,
                    y, stroke.colour, plain(data.name), i + 1, data.values[i]);
  }
  return fmt::format(
      "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\" points=\"{}\"/>\n{}",
      stroke.colour, stroke.dashes, points, dots);
}

std::string legend(const std::vector<ChartLine>& lines) {
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Stroke& stroke = kStrokes[i % kStrokes.size()];
    const std::size_t column = i % kLegendColumns, row = i / kLegendColumns;
    const double x = kLeft + static_cast<double>(column) * (kPlotWidth / kLegendColumns);
    const double y = kHeight - 18 - static_cast<double>(row) * 18;
    text += fmt::format(
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\"/>\n", x,
        y - 4, x + 28, y - 4, stroke.colour, stroke.dashes);
    text += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", x + 34, y, plain(lines[i].name));
  }
  return text;
}

}  // namespace

double round_step(double highest, int steps) {
  if (!(highest > 0) || steps < 1) return 1;
  double power = std::pow(10.0, std::floor(std::log10(highest / steps)));
  while (true) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power * steps >= highest) return factor * power;
    }
    power *= 10;
  }
}

std::string svg_of(const LineChart& chart) {
  std::size_t count = 0;
  double highest = 0;
  for (const ChartLine& data : chart.lines) {
    count = std::max(count, data.values.size());
    for (const double value : data.values) highest = std::max(highest, value);
  }
  const double step = round_step(highest, 6);
  const Scale scale{static_cast<double>(count), std::max(step, std::ceil(highest / step) * step)};
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n"
      "<title>{2}</title>\n"
      "<style>\n"
      "  text {{ font: 13px system-ui, sans-serif; fill: #222; }}\n"
      "  .head {{ font-size: 16px; font-weight: 600; }}\n"
      "  .ground {{ fill: #fff; }} .grid {{ stroke: #ddd; }} .axis {{ stroke: #444; }}\n"
      "  @media (prefers-color-scheme: dark) {{\n"
      "    text {{ fill: #e6e6e6; }} .ground {{ fill: #181a1f; }} .grid {{ stroke: #363a42; }} .axis {{ stroke: #aaa; "
      "}}\n"
      "  }}\n"
      "</style>\n"
      "<rect class=\"ground\" width=\"{0}\" height=\"{1}\"/>\n"
      "<text class=\"head\" x=\"{3}\" y=\"26\">{2}</text>\n",
      kWidth, kHeight, plain(chart.title), kLeft);
  text += axes(chart, scale, step, count);
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    text += line(chart.lines[i], kStrokes[i % kStrokes.size()], scale);
  }
  return text + legend(chart.lines) + "</svg>\n";
}

}  // namespace ebb::cli
