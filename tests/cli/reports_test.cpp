// What the program prints: answers as JSON, notes, tables, help.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "cli/answer_report.h"
#include "cli/bench_report.h"
#include "cli/help.h"
#include "cli/memory_table.h"
#include "cli/receipt_report.h"
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

engine::DeviceStatus some_device() {
  engine::DeviceStatus device;
  device.name = "fake 4.00 GiB";
  device.backend = "fake";
  device.total_bytes = 4096 * kMiB;
  device.limit_bytes = 3072 * kMiB;
  device.free_bytes = 1024 * kMiB;
  device.used_by_us_bytes = 2048 * kMiB;
  device.others_bytes = 1024 * kMiB;
  device.held_bytes = 2048 * kMiB;
  device.mapped_bytes = 1536 * kMiB;
  device.pool_bytes = 512 * kMiB;
  device.planned_bytes = 2560 * kMiB;
  device.live_bytes = 1024 * kMiB;
  device.kinds = {{"weights", 1024 * kMiB}, {"kv_global", 512 * kMiB}, {"scratch", 0}};
  device.internal_fragmentation = 1.0 / 3;  // (1536 - 1024) / 1536
  device.pool_fragmentation = 0.25;         // 512 / 2048
  return device;
}

engine::MemoryStatus some_status() {
  engine::MemoryStatus status;
  status.devices = {some_device()};
  status.host.kinds = {{"mapped_file", 2 * kMiB}, {"parked", 0}};
  status.host.limit_bytes = 32 * kGiB;
  status.host.program = {{"heap", 12 * kMiB}, {"heap_free", kMiB}, {"stacks", 0}, {"data", 248 * kKiB}};
  status.host.anon_bytes = 14 * kMiB;
  status.host.touched_bytes = 5 * kMiB;
  status.conversations.push_back({.id = 7,
                                  .title = "Rivers",
                                  .state = engine::ConversationState::Parked,
                                  .tokens = 30,
                                  .context = 4096,
                                  .device_bytes = 0,
                                  .host_bytes = 3 * kMiB,
                                  .kinds = {}});
  return status;
}

engine::Receipt some_receipt() {
  engine::Receipt receipt;
  receipt.action = engine::Action::Reset;
  receipt.conversation = 3;
  receipt.freed_bytes = 12 * kMiB;
  receipt.devices = {{0, 12 * kMiB, {{"kv_global", 8 * kMiB}, {"kv_local", 4 * kMiB}}, kGiB, kGiB + 12 * kMiB}};
  receipt.kept = {{"weights", 230 * kMiB, "hot for the next answer"}};
  receipt.us = 1240;
  receipt.confirmed = true;
  return receipt;
}

TEST(MemoryTable, ShowsWhatTheProgramHoldsBesideTheLimit) {  // M16
  const std::string table = memory_table(some_status(), false);
  const std::string host = table.substr(table.find("host\n"));
  EXPECT_LT(host.find("| limit"), host.find("heap in use")) << "the limit does not count what stands below it";
  for (const std::string_view part : {"heap in use                             12.0 MiB", "heap kept by the C library               1.0 MiB",
                                      "variables of program and libraries     248.0 KiB",
                                      "of the process, by the system           14.0 MiB",
                                      "and pages of ours, by the system         5.0 MiB"}) {
    EXPECT_NE(host.find(part), std::string::npos) << part << " is missing from\n" << host;
  }
  EXPECT_EQ(host.find("stacks"), std::string::npos);
}

TEST(MemoryTable, ShowsDevicesKindsAndConversations) {  // M19
  const std::string table = memory_table(some_status(), false);
  for (const std::string_view part :
       {"GPU 0: 3.0/4.0 GB (75.0%)  fake 4.00 GiB\n", "W weights", "G kv_global", "+ ready in the pool", "| limit",
        "x other programs", "mapped_file", "parked", "30/4096", "Rivers", "ours by the device's own count 2.00 GiB"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << " is missing from\n" << table;
  }
  EXPECT_EQ(table.find("scratch"), std::string::npos) << "kinds that hold nothing are left out";
  EXPECT_EQ(table.find('\033'), std::string::npos) << "no colours unless asked for";
  EXPECT_NE(memory_table(some_status(), true).find("\033["), std::string::npos);
}

TEST(MemoryTable,
     BarIsSplitByKindAndKeepsItsWidth) {  // 64 cells of 64 MiB; what is mapped, pooled and others', then free
  const std::string bar = "  [" + std::string(16, 'W') + std::string(8, 'G') + std::string(8, '+') +
                          std::string(16, 'x') + "|" + std::string(15, '.') + "]\n";
  EXPECT_NE(memory_table(some_status(), false).find(bar), std::string::npos) << memory_table(some_status(), false);

  engine::MemoryStatus crowded = some_status();
  crowded.devices[0].kinds = {{"weights", 4096 * kMiB}, {"kv_global", 1}, {"kv_local", 1}};
  const std::string table = memory_table(crowded, false);
  const std::size_t begin = table.find('[');
  EXPECT_EQ(table.find(']') - begin, 65U) << table;
}

TEST(MemoryTable, PlannedIsLabelledAndFragmentationFollowsTheFormulas) {  // M20, spec of metrics
  const std::string table = memory_table(some_status(), false);
  EXPECT_NE(table.find("held 2.00 GiB (of it waiting for the device 0 B), planned 2.50 GiB"), std::string::npos);
  // All waste: (held - live) / held = (2048 - 1024) / 2048.
  EXPECT_NE(table.find("internal 33.33 %, pool 25.00 %, external 0 % (any page fits anywhere), all waste 50.00 %"),
            std::string::npos)
      << table;
}

TEST(MemoryTable, LastReceiptAndOneLineForm) {
  engine::MemoryStatus status = some_status();
  EXPECT_EQ(memory_table(status, false).find("last:"), std::string::npos);
  status.last = some_receipt();
  EXPECT_NE(memory_table(status, false)
                .find("last: reset of chat 3: 12.0 MiB given back in 1.24 ms, confirmed by the device\n"),
            std::string::npos);
  EXPECT_EQ(memory_line(status), "GPU 0: 3.0/4.0 GB (75.0%); held 2.00 GiB, 1 chat");
}

TEST(ReceiptReport, SaysWhatWentWhatStayedAndWhetherTheDeviceAgrees) {
  engine::Receipt receipt = some_receipt();
  EXPECT_EQ(receipt_text(receipt),
            "reset of chat 3: 12.0 MiB given back in 1.24 ms, confirmed by the device\n"
            "  device 0: free 1.00 GiB before, 1.01 GiB after; went: kv_global 8.0 MiB, kv_local 4.0 MiB\n"
            "  kept weights 230.0 MiB: hot for the next answer\n");
  receipt.confirmed = false;
  receipt.action = engine::Action::Reclaim;
  receipt.level = 3;
  receipt.host_freed_bytes = kMiB;
  EXPECT_EQ(
      receipt_line(receipt),
      "reclaim level 3 (user): 12.0 MiB given back in 1.24 ms, 1.0 MiB on the host, not yet confirmed by the device");
}

TEST(Help, NamesEveryFlagOfEveryCommand) {
  for (const Command command :
       {Command::Run, Command::Chat, Command::Tokenize, Command::Perplexity, Command::BenchSpeed, Command::BenchMemory,
        Command::Memory, Command::Soak, Command::Doctor, Command::ListDevices}) {
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
