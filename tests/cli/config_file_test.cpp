#include "cli/config_file.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace ebb::cli {
namespace {

using tests::TempFolder;

std::string fault_of(const std::string& text) {
  const TempFolder folder;
  const auto entries = read_config(folder.write("config.yaml", text));
  if (entries) return "";
  EXPECT_EQ(entries.error().code, ErrorCode::InvalidArgument);
  const std::string prefix = (folder.path() / "config.yaml").string() + ", ";
  EXPECT_TRUE(entries.error().message.starts_with(prefix)) << entries.error().message;
  return entries.error().message.substr(prefix.size());
}

TEST(ConfigFile, ReadsTextsNumbersSwitchesAndLists) {
  const TempFolder folder;
  const auto entries = read_config(
      folder.write("c.yaml", "# mine\nmodel: \"~/m.gguf\"\nctx_size: 4096\nexact: true\nreverse_prompt: [a, b]\n"));
  ASSERT_TRUE(entries.has_value());
  ASSERT_EQ(entries->size(), 4U);
  EXPECT_EQ((*entries)[0].values, std::vector<std::string>{"~/m.gguf"});
  EXPECT_EQ((*entries)[1].line, 3U);
  EXPECT_EQ((*entries)[3].values, (std::vector<std::string>{"a", "b"}));
}

TEST(ConfigFile, EmptyFilesSayNothing) {
  EXPECT_EQ(fault_of(""), "");
  EXPECT_EQ(fault_of("# only a comment\n"), "");
}

TEST(ConfigFile, UnknownKeyNamesLineAndNearest) {
  const std::string fault = fault_of("model: x\nctxsize: 5\n");
  EXPECT_TRUE(fault.starts_with("line 2: unknown key 'ctxsize'; did you mean ctx_size?; known keys: model, ctx_size"))
      << fault;
  EXPECT_NE(fault_of("prompt: x\n"), "") << "a prompt belongs to the command line";
}

TEST(ConfigFile, WrongValueNamesLineKeyAndWhatIsAllowed) {
  EXPECT_EQ(fault_of("\nthreads: many\n"), "line 2: threads: 'many': use a whole number from 1 to 1024");
  EXPECT_EQ(fault_of("exact: perhaps\n"), "line 1: exact: 'perhaps': use true or false");
  EXPECT_EQ(fault_of("threads: [1, 2]\n"), "line 1: threads: a list or map is not a value here; use one N");
  EXPECT_EQ(fault_of("threads:\n"), "line 1: threads: has no value; use one N");
  EXPECT_NE(fault_of("reverse_prompt: [a, [b]]\n"), "");
}

TEST(ConfigFile, RefusesWhatIsNotAMap) {
  EXPECT_EQ(fault_of("- a\n- b\n"), "line 1: expected lines of the form `key: value`");
  EXPECT_NE(fault_of("just words\n"), "");
  EXPECT_NE(fault_of("model: {\n").find("not YAML"), std::string::npos);
  EXPECT_NE(fault_of("model: [a\n").find("not YAML"), std::string::npos);
  EXPECT_NE(fault_of("? [a]\n: b\n"), "");
}

// The block of the design document, with its comments.
constexpr const char* kMemoryBlock = R"(model: ~/models/gemma-3-12b-it-q4_0.gguf
memory_management:
  auto_gc: true            # watch in the background
  gc_threshold: 0.8        # share of the budget (or of the device) at which it acts
  gc_interval: 300         # seconds between looks
  after_generation: true   # level 1
  full_every_turns: 5      # level 2; 0 = never
  memory_limit: 20GiB      # hard, per device; also a list, also "80%"
  host_limit: 32GiB        # parked conversations, streamed layers, caches
  balance: true            # --balance-memory
  yield_to_others: true    # shrink when another program takes memory
  idle_unload: 0           # seconds; 0 = keep weights
)";

TEST(ConfigFile, ReadsTheMemoryBlock) {
  const TempFolder folder;
  const auto entries = read_config(folder.write("c.yaml", kMemoryBlock));
  ASSERT_TRUE(entries.has_value()) << entries.error().message;
  ASSERT_EQ(entries->size(), 11U);
  EXPECT_EQ((*entries)[10].setting->name, "sleep-idle-seconds");
  EXPECT_EQ((*entries)[10].line, 12U);
  EXPECT_EQ(fault_of("memory_management:\n  park_after_generation: true\n  unload_after_generation: true\n"), "");
  EXPECT_EQ(fault_of("memory_management:\n"), "") << "an empty block says nothing";
}

TEST(ConfigFile, AListOfLimitsIsOneValue) {
  const TempFolder folder;
  const auto entries = read_config(folder.write("c.yaml", "memory_management:\n  memory_limit: [20GiB, 80%]\n"));
  ASSERT_TRUE(entries.has_value()) << entries.error().message;
  EXPECT_EQ((*entries)[0].values, std::vector<std::string>{"20GiB,80%"});
}

TEST(ConfigFile, FaultsInTheMemoryBlockNameLineKeyAndWhatIsAllowed) {
  const auto in_block = [](const std::string& line) { return fault_of("memory_management:\n  " + line + "\n"); };
  EXPECT_TRUE(in_block("gc_treshold: 0.8")
                  .starts_with("line 2: unknown key 'memory_management.gc_treshold'; did you mean gc_threshold?; known "
                               "keys: memory_limit, host_limit, balance,"))
      << in_block("gc_treshold: 0.8");
  EXPECT_EQ(in_block("gc_threshold: 1.5"),
            "line 2: memory_management.gc_threshold: '1.5': use a share above 0 and up to 1, such as 0.8 or 80%");
  EXPECT_EQ(in_block("gc_threshold: 0"),
            "line 2: memory_management.gc_threshold: '0': use a share above 0 and up to 1, such as 0.8 or 80%");
  EXPECT_EQ(in_block("gc_interval: soon"),
            "line 2: memory_management.gc_interval: 'soon': use a whole number from 1 to 31536000");
  EXPECT_EQ(in_block("auto_gc: maybe"), "line 2: memory_management.auto_gc: 'maybe': use true or false");
  EXPECT_EQ(in_block("auto_gc: [true]"),
            "line 2: memory_management.auto_gc: a list or map is not a value here; use true or false");
  for (const std::string limit : {"0", "lots", "120%", "0%", "-1GiB", "20GiB,", "20"}) {
    EXPECT_EQ(in_block("memory_limit: \"" + limit + "\""),
              "line 2: memory_management.memory_limit: '" + limit +
                  "': use a size such as 20GiB, a share such as 80%, or none; or a list with one for each device");
  }
  EXPECT_EQ(in_block("memory_limit: []"),
            "line 2: memory_management.memory_limit: an empty list says nothing; use one value, or a list of them");
  EXPECT_EQ(in_block("host_limit: 80%"),
            "line 2: memory_management.host_limit: '80%': use a size such as 32GiB, or none");
  EXPECT_EQ(in_block("idle_unload: -5"),
            "line 2: memory_management.idle_unload: '-5': use a whole number from 0 to 31536000");
  EXPECT_EQ(in_block("balance: true\n  balance: false"), "line 3: balance is already set in line 2");
}

TEST(ConfigFile, KeysInTheWrongPlaceAreShownTheRightOne) {
  EXPECT_TRUE(
      fault_of("gc_threshold: 0.7\n")
          .starts_with("line 1: unknown key 'gc_threshold'; it belongs into the block memory_management; known"))
      << fault_of("gc_threshold: 0.7\n");
  EXPECT_TRUE(fault_of("memory_management:\n  ctx_size: 5\n")
                  .starts_with("line 2: unknown key 'memory_management.ctx_size'; it belongs to the top of the file;"));
  EXPECT_EQ(fault_of("memory_management: 5\n"),
            "line 1: memory_management: is a block; use indented lines of the form `key: value`");
}

TEST(ConfigFile, RefusesAKeyTwice) {
  EXPECT_EQ(fault_of("temp: 1\ntemp: 0\n"), "line 2: temp is already set in line 1");
}

TEST(ConfigFile, RefusesFoldersAndMissingFiles) {
  const TempFolder folder;
  EXPECT_EQ(read_config(folder.path()).error().code, ErrorCode::Io);
  EXPECT_EQ(read_config(folder.path() / "none").error().code, ErrorCode::NotFound);
}

}  // namespace
}  // namespace ebb::cli
