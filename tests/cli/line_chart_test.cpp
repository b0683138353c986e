#include "cli/line_chart.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

namespace ebb::cli {
namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(LineChart, StepsAreRoundAndFew) {
  EXPECT_EQ(round_step(3, 6), 0.5);
  EXPECT_EQ(round_step(100, 5), 20);
  EXPECT_EQ(round_step(101, 5), 50);
  EXPECT_EQ(round_step(7000, 6), 2000);
  EXPECT_EQ(round_step(0, 6), 1);
}

TEST(LineChart, CarriesTitleAxesUnitsLegendAndEveryValue) {
  const std::string svg =
      svg_of({"A <title> & more", "turns", "MiB", {{"none", {1, 2, 4.25}}, {"three levels", {1, 1, 1}}}});
  EXPECT_TRUE(svg.starts_with("<svg xmlns="));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("A &lt;title&gt; &amp; more"), std::string::npos);
  EXPECT_NE(svg.find(">turns<"), std::string::npos);
  EXPECT_NE(svg.find(">MiB<"), std::string::npos);
  EXPECT_EQ(count_of(svg, ">three levels<"), 1U) << "once in the legend";
  EXPECT_EQ(count_of(svg, "<polyline"), 2U);
  EXPECT_EQ(count_of(svg, "<circle"), 6U);
  EXPECT_NE(svg.find("none, 3: 4.25"), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_EQ(count_of(svg, "<text"), count_of(svg, "</text>"));
}

TEST(LineChart, PointsStayInsideTheAxes) {
  const std::string svg = svg_of({"t", "x", "y", {{"a", {0, 17, 3}}, {"b", {17.5}}}});
  const std::regex circle("<circle cx=\"([0-9.]+)\" cy=\"([0-9.]+)\"");
  int seen = 0;
  for (std::sregex_iterator at(svg.begin(), svg.end(), circle), end; at != end; ++at, ++seen) {
    EXPECT_GE(std::stod((*at)[1]), 74.0);
    EXPECT_LE(std::stod((*at)[1]), 740.0);
    EXPECT_GE(std::stod((*at)[2]), 48.0);
    EXPECT_LE(std::stod((*at)[2]), 328.0);
  }
  EXPECT_EQ(seen, 4);
}

TEST(LineChart, NoDataIsNoFault) {
  for (const LineChart& chart : {LineChart{"t", "x", "y", {}}, LineChart{"t", "x", "y", {{"a", {}}}},
                                 LineChart{"t", "x", "y", {{"a", {0, 0}}}}}) {
    const std::string svg = svg_of(chart);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
  }
}

}  // namespace
}  // namespace ebb::cli
