#include "cli/arguments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/bytes.h"
#include "cli/settings.h"
#include "support/temp_folder.h"

namespace ebb::cli {
namespace {

using tests::TempFolder;

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

Result<Invocation> parse(const Words& words, const Variables& variables = {}) {
  return parse_arguments(words, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}
Options options_of(const Words& words, const Variables& variables = {}) {
  const auto invocation = parse(words, variables);
  EXPECT_TRUE(invocation.has_value()) << (invocation ? "" : invocation.error().message);
  return invocation ? invocation->options : Options{};
}
std::string error_of(const Words& words, const Variables& variables = {}) {
  const auto invocation = parse(words, variables);
  if (invocation) return "";
  EXPECT_EQ(invocation.error().code, ErrorCode::InvalidArgument);
  return invocation.error().message;
}

TEST(Arguments, ReadsEveryFlagOfRun) {
  const Options options = options_of({"run",         "-m",
                                      "a.gguf",      "-p",
                                      "Hi",          "-f",
                                      "b.txt",       "-sys",
                                      "S",           "-n",
                                      "7",           "-c",
                                      "512",         "-t",
                                      "3",           "-b",
                                      "100",         "-ub",
                                      "200",         "-dev",
                                      "fake:1GiB",   "--fake-page",
                                      "64KiB",       "-ctk",
                                      "f32",         "-ctv",
                                      "f32",         "--temp",
                                      "0.5",         "--top-k",
                                      "9",           "--top-p",
                                      "0.8",         "--min-p",
                                      "0.1",         "--repeat-penalty",
                                      "1.1",         "--presence-penalty",
                                      "0.2",         "--frequency-penalty",
                                      "0.3",         "--repeat-last-n",
                                      "-1",          "-s",
                                      "42",          "-r",
                                      "A",           "-r",
                                      "B",           "--exact",
                                      "--raw",       "--chat-template",
                                      "plain",       "--json",
                                      "--log-probs", "2",
                                      "-lv",         "2"});
  EXPECT_EQ(options.model, "a.gguf");
  EXPECT_EQ(options.prompt, "Hi");
  EXPECT_EQ(options.prompt_file, "b.txt");
  EXPECT_EQ(options.system, "S");
  EXPECT_EQ(options.generate.max_tokens, 7);
  EXPECT_EQ(options.engine.context_tokens, 512U);
  EXPECT_EQ(options.engine.threads, 3);
  EXPECT_EQ(options.engine.chunk_tokens, 100U) << "the smaller of -b and -ub";
  EXPECT_EQ(options.engine.devices, "fake:1GiB");
  EXPECT_EQ(options.engine.fake_page_bytes, 65536U);
  EXPECT_EQ(options.engine.kv_type, "f32");
  EXPECT_TRUE(options.engine.exact);
  EXPECT_EQ(options.engine.chat_template, "plain");
  const engine::SamplingOptions& sampling = options.generate.sampling;
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_k, 9);
  EXPECT_EQ(sampling.top_p, 0.8F);
  EXPECT_EQ(sampling.min_p, 0.1F);
  EXPECT_EQ(sampling.repeat_penalty, 1.1F);
  EXPECT_EQ(sampling.presence_penalty, 0.2F);
  EXPECT_EQ(sampling.frequency_penalty, 0.3F);
  EXPECT_EQ(sampling.repeat_last_n, -1);
  EXPECT_EQ(sampling.seed, 42U);
  EXPECT_EQ(options.generate.stop, (Words{"A", "B"}));
  EXPECT_EQ(options.generate.log_probs, 2);
  EXPECT_TRUE(options.raw && options.json);
  EXPECT_EQ(options.verbosity, 2);
}

TEST(Arguments, DefaultsAreGemmasSampling) {  // T12
  const engine::SamplingOptions sampling = options_of({"run"}).generate.sampling;
  EXPECT_EQ(sampling.temperature, 1.0F);
  EXPECT_EQ(sampling.top_k, 64);
  EXPECT_EQ(sampling.top_p, 0.95F);
  EXPECT_EQ(sampling.min_p, 0.0F);
  EXPECT_EQ(sampling.repeat_penalty, 1.0F);
  EXPECT_FALSE(sampling.seed.has_value());
}

TEST(Arguments, LastUseOfAFlagWins) { EXPECT_EQ(options_of({"run", "-n", "1", "--predict=2"}).generate.max_tokens, 2); }

TEST(Arguments, KeepsTextsThatLookLikeSyntax) {
  EXPECT_EQ(options_of({"run", "-p", "[a,b]"}).prompt, "[a,b]");
  EXPECT_EQ(options_of({"run", "-p", "--temp"}).prompt, "--temp");
  EXPECT_EQ(options_of({"run", "-p="}).prompt, "");
  EXPECT_EQ(options_of({"run", "-p", "a\"b'{}\\n"}).prompt, "a\"b'{}\\n");
  EXPECT_EQ(options_of({"tokenize", "[1,", "2]", "--", "--ids"}).words, (Words{"[1,", "2]", "--ids"}));
}

TEST(Arguments, SeedMinusOneIsAFreshOne) {
  EXPECT_FALSE(options_of({"run", "-s", "-1"}).generate.sampling.seed.has_value());
}

TEST(Arguments, SwitchesCanBeTurnedOff) { EXPECT_FALSE(options_of({"run", "--json=false"}).json); }

TEST(Arguments, BenchReadsListsWhereRunReadsAPrompt) {
  const Options options = options_of({"bench", "speed", "-p", "512,2048", "-n", "0", "-r", "7", "-o", "csv"});
  EXPECT_EQ(options.prompt_sizes, (std::vector<std::size_t>{512, 2048}));
  EXPECT_EQ(options.answer_sizes, std::vector<std::size_t>{0});
  EXPECT_EQ(options.repetitions, 7);
  EXPECT_EQ(options.format, TableFormat::Csv);
  EXPECT_NE(error_of({"bench"}), "");
  EXPECT_NE(error_of({"bench", "sped"}), "");
}

TEST(Arguments, NamesTheNearestFlag) {  // C1
  EXPECT_EQ(error_of({"run", "--tmp", "1"}), "unknown flag --tmp; did you mean --temp?");
  EXPECT_EQ(error_of({"run", "--ctxsize=1"}), "unknown flag --ctxsize; did you mean --ctx-size?");
  EXPECT_EQ(error_of({"run", "-ctl", "f16"}), "unknown flag -ctl; did you mean -ctk?");
  EXPECT_EQ(error_of({"run", "--grammar", "x"}), "unknown flag --grammar");
}

TEST(Arguments, NamesTheNearestCommand) {
  EXPECT_EQ(error_of({"rum"}), "unknown command 'rum'; did you mean run? (ebb -h lists the commands)");
  EXPECT_NE(error_of({}).find("needs a command"), std::string::npos);
  EXPECT_NE(error_of({"-p", "Hi"}).find("where a command belongs"), std::string::npos);
}

TEST(Arguments, SaysWhatAFlagAllows) {
  EXPECT_EQ(error_of({"run", "-t", "0"}), "--threads '0': use a whole number from 1 to 1024");
  EXPECT_EQ(error_of({"run", "-t", "10000"}), "--threads '10000': use a whole number from 1 to 1024");
  EXPECT_EQ(error_of({"run", "--top-p", "1.5"}), "--top-p '1.5': use a number from 0 to 1");
  EXPECT_EQ(error_of({"run", "-ctk", "q4"}), "--cache-type-k 'q4': use one of: f16, bf16, f32, q8_0, q4_0");
  EXPECT_NE(error_of({"run", "--temp", "-1"}), "");
  EXPECT_NE(error_of({"run", "--temp", "nan"}), "");
  EXPECT_NE(error_of({"run", "-n", "5x"}), "");
  EXPECT_NE(error_of({"run", "--fake-page", "many"}), "");
  EXPECT_EQ(error_of({"run", "-p", "x", "-n"}), "-n needs a value");
  EXPECT_EQ(error_of({"run", "Hi"}), "unexpected 'Hi'; give the prompt with -p");
}

TEST(Arguments, KeysAndValuesHaveTypesOfTheirOwn) {
  EXPECT_EQ(options_of({"run", "-ctk", "bf16", "-ctv", "bf16"}).engine.kv_type, "bf16");
  EXPECT_EQ(options_of({"run", "-ctv", "q8_0"}).engine.kv_type, "f16/q8_0");
  EXPECT_EQ(options_of({"run", "-ctv", "q8_0", "--exact"}).engine.kv_type, "f32/q8_0");
  EXPECT_EQ(options_of({"run", "-ctk", "q8_0", "-ctv", "q4_0"}).engine.kv_type, "q8_0/q4_0");
  EXPECT_EQ(options_of({"run"}).engine.kv_type, "");
}

TEST(Arguments, CommandLineBeatsEnvironmentBeatsConfig) {  // C1
  const TempFolder folder;
  const std::string config =
      folder.write("c.yaml", "model: from-config\ntop_k: 1\nthreads: 2\nreverse_prompt: [X, Y]\n").string();
  const Variables variables{{"EBB_CONFIG", config}, {"EBB_TOP_K", "2"}, {"EBB_TEMP", "0.25"}, {"EBB_THREADS", ""}};
  const Options options = options_of({"run", "--temp", "0.5"}, variables);
  EXPECT_EQ(options.model, "from-config");
  EXPECT_EQ(options.generate.sampling.top_k, 2);
  EXPECT_EQ(options.generate.sampling.temperature, 0.5F);
  EXPECT_EQ(options.engine.threads, 2) << "an empty variable says nothing";
  EXPECT_EQ(options.generate.stop, (Words{"X", "Y"}));
  EXPECT_EQ(options_of({"run", "-r", "Z"}, variables).generate.stop, Words{"Z"});
}

TEST(Arguments, NamesTheVariableThatIsWrong) {
  EXPECT_EQ(error_of({"run"}, {{"EBB_THREADS", "lots"}}), "EBB_THREADS 'lots': use a whole number from 1 to 1024");
}

TEST(Arguments, LooksForConfigInItsUsualPlace) {
  const TempFolder folder;
  folder.write("ebb/config.yaml", "threads: 5\n");
  EXPECT_EQ(options_of({"run"}, {{"XDG_CONFIG_HOME", folder.path().string()}}).engine.threads, 5);
  EXPECT_EQ(options_of({"run"}, {{"XDG_CONFIG_HOME", "/nowhere"}}).engine.threads, 0);
  folder.write(".config/ebb/config.yaml", "threads: 6\n");
  EXPECT_EQ(options_of({"run"}, {{"HOME", folder.path().string()}}).engine.threads, 6);
}

TEST(Arguments, ConfigNamedButMissingIsAnError) {
  const auto invocation = parse({"run", "--config", "/nowhere/c.yaml"});
  ASSERT_FALSE(invocation.has_value());
  EXPECT_EQ(invocation.error().code, ErrorCode::NotFound);
}

TEST(Arguments, HelpIsThereWhateverElseIsWrong) {
  EXPECT_TRUE(options_of({"run", "-t", "0", "-h"}).help);
  EXPECT_TRUE(options_of({"--help"}).help);
  EXPECT_TRUE(options_of({"bench", "-h"}).help);
  EXPECT_TRUE(parse({"--version"})->version);
  EXPECT_EQ(parse({"--list-devices", "-dev", "cpu"})->command, Command::ListDevices);
}

TEST(Settings, SpellingsAreUniqueWithinACommand) {
  for (const Command command : {Command::Run, Command::Chat, Command::Tokenize, Command::Perplexity,
                                Command::BenchSpeed, Command::Doctor, Command::ListDevices}) {
    std::vector<std::string> all = spellings(command);
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
  }
}

TEST(Settings, LastingNamesAreUnique) {
  Words names;
  for (const Setting& setting : settings()) {
    if (setting.lasting) names.push_back(environment_name(setting));
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_TRUE(std::ranges::binary_search(names, "EBB_CTX_SIZE"));
}

TEST(MemoryFlags, ReadsAllOfThem) {
  const engine::MemoryOptions memory =
      options_of({"chat", "--memory-limit", "20GiB,80%", "--host-limit=32GiB", "--balance-memory",
                  "--yield-to-others=false", "--after-generation=off", "--full-every-turns", "7",
                  "--park-after-generation", "--unload-after-generation", "--sleep-idle-seconds", "60",
                  "--auto-gc=false", "--gc-threshold", "70%", "--gc-interval", "30"})
          .engine.memory;
  ASSERT_EQ(memory.memory_limit.size(), 2U);
  EXPECT_EQ(memory.memory_limit[0].bytes, 20 * kGiB);
  EXPECT_EQ(memory.memory_limit[1].share, 0.8);
  EXPECT_EQ(memory.host_limit_bytes, 32 * kGiB);
  EXPECT_TRUE(memory.balance && memory.park_after_generation && memory.unload_after_generation);
  EXPECT_FALSE(memory.yield_to_others || memory.after_generation || memory.auto_gc);
  EXPECT_EQ(memory.full_every_turns, 7);
  EXPECT_EQ(memory.idle_unload_s, 60);
  EXPECT_EQ(memory.gc_threshold, 0.7);
  EXPECT_EQ(memory.gc_interval_s, 30);
}

TEST(MemoryFlags, OtherToolsWords) {  // C1, C3
  EXPECT_EQ(options_of({"chat", "--gpu-memory-utilization", "0.8"}).engine.memory.memory_limit[0].share, 0.8);
  EXPECT_EQ(options_of({"chat", "--sleep-idle-seconds", "-1"}).engine.memory.idle_unload_s, 0);
  EXPECT_NE(error_of({"chat", "--gpu-memory-utilization", "0.8", "--memory-limit", "5GiB"}), "");
  EXPECT_NE(error_of({"chat", "--gpu-memory-utilization", "1.2"}).find("up to 1"), std::string::npos);
}

TEST(MemoryFlags, CommandLineBeatsVariableBeatsConfig) {
  const TempFolder folder;
  const std::string config =
      folder
          .write("c.yaml", "memory_management:\n  gc_threshold: 0.5\n  gc_interval: 10\n  memory_limit: [1GiB, 2GiB]\n")
          .string();
  const engine::MemoryOptions memory =
      options_of({"run", "--config", config, "--gc-threshold", "0.9"},
                 {{"EBB_GC_THRESHOLD", "0.6"}, {"EBB_GC_INTERVAL", "20"}, {"EBB_SLEEP_IDLE_SECONDS", "5"}})
          .engine.memory;
  EXPECT_EQ(memory.gc_threshold, 0.9);
  EXPECT_EQ(memory.gc_interval_s, 20);
  EXPECT_EQ(memory.idle_unload_s, 5);
  ASSERT_EQ(memory.memory_limit.size(), 2U);
  EXPECT_EQ(memory.memory_limit[1].bytes, 2 * kGiB);
  EXPECT_TRUE(options_of({"run", "--config", config, "--memory-limit", "none"}).engine.memory.memory_limit.empty());
  EXPECT_EQ(
      options_of({"run", "--config", config, "--gpu-memory-utilization", "0.5"}).engine.memory.memory_limit.size(), 1U);
}

TEST(MemoryCommand, OpensOnlyTheModelGivenToIt) {
  EXPECT_EQ(options_of({"memory", "--watch", "--json"}, {{"EBB_MODEL", "x.gguf"}}).model, "");
  EXPECT_EQ(options_of({"memory", "-m", "y.gguf"}).model, "y.gguf");
}

}  // namespace
}  // namespace ebb::cli
