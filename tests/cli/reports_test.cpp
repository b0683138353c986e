// What the program prints: answers as JSON, notes, tables, help.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/answer_report.h"
#include "cli/bench_report.h"
#include "cli/help.h"
#include "cli/memory_table.h"
#include "cli/settings.h"

namespace ebb::cli {
namespace {

engine::Answer some_answer() {
  engine::Answer answer;
  answer.text = "4 世界 \"x\"\n";
  answer.tokens = {5, 106};
  answer.usage = {10, 6, 2};
  answer.timings = {20, 40};
  answer.seed = 4294967295;
  answer.log_probs = {{{5, "\xe4", -0.25}, {{5, "\xe4", -0.25}, {6, "a", -2}}}};
  return answer;
}

TEST(AnswerJson, IsOneValidObject) {
  const std::string text = answer_json(some_answer(), "m");
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const auto object = nlohmann::json::parse(text);
  EXPECT_EQ(object["text"], "4 世界 \"x\"\n");
  EXPECT_EQ(object["finish_reason"], "stop");
  EXPECT_TRUE(object["stop_string"].is_null());
  EXPECT_EQ(object["seed"], 4294967295U);
  EXPECT_EQ(object["usage"]["total_tokens"], 12);
  EXPECT_EQ(object["timings"]["prompt_tokens_per_second"], 200.0) << "of the four tokens evaluated";
  EXPECT_EQ(object["timings"]["completion_tokens_per_second"], 50.0);
  EXPECT_EQ(object["log_probs"][0]["bytes"][0], 228);
  EXPECT_EQ(object["log_probs"][0]["top"].size(), 2U);
}

TEST(AnswerReport, SaysWhyAnAnswerStopped) {  // S2
  engine::Answer answer = some_answer();
  engine::ModelInfo info;
  info.context = 512;
  info.trained_context = 32768;
  EXPECT_EQ(ending_note(answer, info), "");
  answer.finish = engine::FinishReason::ContextFull;
  const std::string note = ending_note(answer, info);
  EXPECT_NE(note.find("512"), std::string::npos);
  EXPECT_NE(note.find("32768"), std::string::npos);
}

TEST(AnswerReport, EscapesWhatWouldBreakALine) {
  EXPECT_EQ(escaped("a\n\t\\\x01\xff世"), "a\\n\\t\\\\\\x01\\xFF世");
  EXPECT_EQ(escaped("\xe4\xb8"), "\\xE4\\xB8");
  EXPECT_EQ(escaped(""), "");
}

TEST(SpeedReport, AllFormsCarryTheMedian) {
  SpeedReport report;
  report.model.name = "a \"b\"";
  report.rows = {{"prompt 4", false, 4, {1, 2, 3, 6}}, {"answer 2", true, 2, {5, 10, 11}}};
  report.ceiling = {100, 2000};  // 20 tok/s
  EXPECT_EQ(report.rows[0].median(), 2.5);
  EXPECT_NE(speed_report(report, TableFormat::Markdown).find("| answer 2 | 10.00 | 5.00 | 11.00 | 50 | 3 |"),
            std::string::npos);
  const std::string csv = speed_report(report, TableFormat::Csv);
  EXPECT_NE(csv.find("prompt 4,4,2.500,1.000,6.000,,4,0\n"), std::string::npos) << csv;
  const auto json = nlohmann::json::parse(speed_report(report, TableFormat::Json));
  EXPECT_EQ(json["rows"][1]["percent_of_ceiling"], 50.0);
  EXPECT_EQ(json["rows"][0]["samples"].size(), 4U);
}

TEST(MemoryTable, ShowsDevicesKindsAndConversations) {
  engine::MemoryStatus status;
  engine::DeviceStatus device;
  device.name = "cpu";
  device.backend = "host";
  device.kinds = {{"kv_global", 1048576}, {"scratch", 0}};
  status.devices = {device};
  status.host.kinds = {{"mapped_file", 2097152}};
  status.conversations.push_back({.id = 7, .title = {}, .state = engine::ConversationState::Idle, .tokens = 30,
                                  .context = 4096, .device_bytes = 4096, .host_bytes = 0, .kinds = {}});
  const std::string table = memory_table(status);
  EXPECT_NE(table.find("kv_global"), std::string::npos);
  EXPECT_EQ(table.find("scratch"), std::string::npos) << "kinds that hold nothing are left out";
  EXPECT_NE(table.find("mapped_file"), std::string::npos);
  EXPECT_NE(table.find("7: 30 tokens"), std::string::npos);
}

TEST(Help, NamesEveryFlagOfEveryCommand) {
  for (const Command command : {Command::Run, Command::Chat, Command::Tokenize, Command::Perplexity,
                                Command::BenchSpeed, Command::Doctor, Command::ListDevices}) {
    const std::string help = command_help(command);
    for (const Setting& setting : settings()) {
      if (!belongs_to(setting, command)) continue;
      EXPECT_NE(help.find("--" + std::string(setting.name)), std::string::npos) << setting.name;
    }
  }
  EXPECT_NE(general_help().find("ebb chat"), std::string::npos);
}

}  // namespace
}  // namespace ebb::cli
