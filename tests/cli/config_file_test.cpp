#include "cli/config_file.h"

#include <gtest/gtest.h>

#include "cli/temp_folder.h"

namespace ebb::cli {
namespace {

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
