// The four forms of `ebb bench memory`: all from the same numbers.
#include "cli/memory_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace ebb::cli {
namespace {

MemoryPoint point(std::size_t device_mib, std::size_t live_mib) {
  return {device_mib * kMiB, live_mib * kMiB, 90 * kMiB, 100 * kMiB};
}

MemoryReport some_report() {
  MemoryReport report;
  report.model.name = "m";
  report.devices = "fake 24.00 GiB";
  report.message_tokens = 8;
  report.answer_tokens = 2;
  report.strategies = {{"none", 80 * kMiB, {{point(90, 60), 10}, {point(100, 45), 20}}},
                       {"three levels", 80 * kMiB, {{point(90, 60), 12}, {point(84, 90), 18}}}};
  report.resets = {{"short chat", 2, 21, 12 * kMiB, 92 * kMiB, 80 * kMiB, {1, 2, 3, 10}, true},
                   {"long chat", 20, 201, 12 * kMiB, 92 * kMiB, 83 * kMiB, {4}, false}};
  return report;
}

TEST(MemoryPoint, FragmentationFollowsTheFormulas) {
  const MemoryPoint some = point(100, 45);  // live 45, mapped 90, held 100
  EXPECT_EQ(some.internal_fragmentation(), 0.5);
  EXPECT_EQ(some.pool_share(), 0.1);
  EXPECT_EQ(some.waste(), 0.55);
  EXPECT_EQ(MemoryPoint{}.waste(), 0) << "nothing held, nothing wasted";
}

TEST(MemoryPoint, SumsTheDevices) {
  engine::MemoryStatus status;
  status.devices.resize(2);
  status.devices[0].used_by_us_bytes = 5;
  status.devices[0].held_bytes = 4;
  status.devices[1].used_by_us_bytes = 7;
  status.devices[1].mapped_bytes = 3;
  status.devices[1].live_bytes = 2;
  const MemoryPoint sum = memory_point(status);
  EXPECT_EQ(sum.device_bytes, 12U);
  EXPECT_EQ(sum.held_bytes, 4U);
  EXPECT_EQ(sum.mapped_bytes, 3U);
  EXPECT_EQ(sum.live_bytes, 2U);
}

TEST(ResetResult, ReleasedIsByTheDevicesCountOfTheChatsBytes) {
  const std::vector<ResetResult> resets = some_report().resets;
  EXPECT_EQ(resets[0].released_share(), 1.0);
  EXPECT_EQ(resets[1].released_share(), 0.75);  // 9 of 12
  EXPECT_EQ(resets[0].median_ms(), 2.5);
  EXPECT_EQ(resets[1].median_ms(), 4);
  ResetResult more = resets[0];
  more.after_bytes = 70 * kMiB;
  EXPECT_EQ(more.released_share(), 1.0) << "what else went does not make it more than all";
  more.after_bytes = 93 * kMiB;
  EXPECT_EQ(more.released_share(), 0.0) << "a rise releases nothing";
}

TEST(MemoryReport, MarkdownHasThreeTables) {
  const std::string text = memory_report(some_report(), TableFormat::Markdown);
  for (const std::string_view part :
       {"floor (weights loaded, no chat): 80.0 MiB by the device's own count", "After 2 turns",
        "| none | 100.0 MiB | 20.00 MiB | 50.00 % | 10.00 % | 55.00 % | 15 ms |",
        "| three levels | 84.0 MiB | 4.00 MiB | 0.00 % | 10.00 % | 10.00 % | 15 ms |", "| 2 | 20.00 | 4.00 |",
        "| short chat | 2 | 21 | 92.0 MiB | 80.0 MiB | 12.0 MiB | 100.0 % | 2.50 ms | 10.00 ms | yes |",
        "| 75.0 % | 4.00 ms | 4.00 ms | no |"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing from\n" << text;
  }
}

TEST(MemoryReport, CsvHasOneValueALine) {
  const std::string text = memory_report(some_report(), TableFormat::Csv);
  EXPECT_TRUE(text.starts_with("table,case,turn,quantity,value\n"));
  EXPECT_NE(text.find("turns,none,2,device_bytes,104857600\n"), std::string::npos) << text;
  EXPECT_NE(text.find("turns,three levels,1,answer_ms,12.000\n"), std::string::npos) << text;
  EXPECT_NE(text.find("reset,short chat,2,ms,10.0000\n"), std::string::npos) << text;
  EXPECT_NE(text.find("reset,long chat,20,confirmed,false\n"), std::string::npos) << text;
}

TEST(MemoryReport, JsonAndChartCarryTheSameNumbers) {
  const MemoryReport report = some_report();
  const auto json = nlohmann::json::parse(memory_report(report, TableFormat::Json));
  const LineChart chart = memory_chart(report);
  ASSERT_EQ(chart.lines.size(), json["strategies"].size());
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const auto& strategy = json["strategies"][i];
    EXPECT_EQ(chart.lines[i].name, strategy["name"]);
    for (std::size_t turn = 0; turn < chart.lines[i].values.size(); ++turn) {
      const double above =
          strategy["turns"][turn]["device_bytes"].get<double>() - strategy["floor_bytes"].get<double>();
      EXPECT_EQ(chart.lines[i].values[turn] * static_cast<double>(kMiB), above);
    }
  }
  EXPECT_EQ(json["resets"][1]["released_share"], 0.75);
  EXPECT_EQ(json["strategies"][0]["mean_answer_ms"], 15);
}

}  // namespace
}  // namespace ebb::cli
