// The files the terminal program finds, reads and writes: models by name, saved chats.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>

#include "cli/chat_file.h"
#include "cli/model_path.h"
#include "support/temp_folder.h"

namespace ebb::cli {
namespace {

using tests::TempFolder;

Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(FindModel, TakesPathsAndNamesOfTheCache) {
  const TempFolder folder;
  const auto file = folder.write("models/small.gguf", "x");
  folder.write("models/folder/config.json", "{}");
  const Environment environment =
      environment_of({{"EBB_CACHE", folder.path().string()}, {"HOME", folder.path().string()}});
  EXPECT_EQ(find_model(file.string(), environment).value(), file);
  EXPECT_EQ(find_model("small", environment).value(), file);
  EXPECT_EQ(find_model("small.gguf", environment).value(), file);
  EXPECT_EQ(find_model("folder", environment).value(), folder.path() / "models/folder");
  EXPECT_EQ(find_model("~/models/small.gguf", environment).value(), file);
}

TEST(FindModel, SaysWhereItLookedAndWhatIsThere) {
  const TempFolder folder;
  folder.write("models/small.gguf", "x");
  const Environment environment = environment_of({{"EBB_CACHE", folder.path().string()}});
  const Error unknown = find_model("smal", environment).error();
  EXPECT_EQ(unknown.code, ErrorCode::NotFound);
  EXPECT_NE(unknown.message.find("there: small); did you mean small?"), std::string::npos) << unknown.message;
  EXPECT_EQ(find_model("/nowhere/x.gguf", environment).error().code, ErrorCode::NotFound);
  EXPECT_EQ(find_model("", environment).error().code, ErrorCode::InvalidArgument);
  EXPECT_NE(find_model("", environment_of({})).error().message.find("there: none"), std::string::npos);
}

TEST(CacheFolder, FollowsTheVariables) {
  EXPECT_EQ(cache_folder(environment_of({{"HOME", "/h"}})), "/h/.cache/ebb");
  EXPECT_EQ(cache_folder(environment_of({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}})), "/x/ebb");
  EXPECT_EQ(cache_folder(environment_of({{"EBB_CACHE", "/e"}, {"XDG_CACHE_HOME", "/x"}})), "/e");
  EXPECT_EQ(state_folder(environment_of({{"HOME", "/h"}})), "/h/.local/state/ebb");
}

TEST(ChatFile, ComesBackAsItWas) {
  const TempFolder folder;
  const ChatRecord record{
      "m", "Be terse.\n\"x\"", {{"user", "你好 \x01"}, {"assistant", ""}, {"user", "<end_of_turn>"}}};
  ASSERT_TRUE(save_chat(folder.path() / "c.json", record).has_value());
  const ChatRecord again = load_chat(folder.path() / "c.json").value();
  EXPECT_EQ(again.model, record.model);
  EXPECT_EQ(again.system, record.system);
  ASSERT_EQ(again.messages.size(), 3U);
  EXPECT_EQ(again.messages[0].text, record.messages[0].text);
  EXPECT_EQ(again.messages[2].role, "user");
  struct stat file {};
  ASSERT_EQ(stat((folder.path() / "c.json").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777U, 0600U);
}

TEST(ChatFile, FailedSaveLeavesNothingBehind) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path() / "taken");
  EXPECT_EQ(save_chat(folder.path() / "taken", {}).error().code, ErrorCode::Io);
  EXPECT_EQ(save_chat(folder.path() / "no/folder/c.json", {}).error().code, ErrorCode::Io);
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& item : std::filesystem::directory_iterator(folder.path())) ++count;
  EXPECT_EQ(count, 1U);
}

TEST(ChatFile, SaysWhatIsWrongAndWhere) {
  const TempFolder folder;
  const auto fault = [&](const std::string& text) {
    const auto record = load_chat(folder.write("c.json", text));
    return record ? std::string() : record.error().message;
  };
  const std::string head = R"({"format":"ebb-chat","version":1,"model":"m","system":"","messages":)";
  EXPECT_EQ(fault(head + "[]}"), "");
  EXPECT_NE(fault("").find("not JSON"), std::string::npos);
  EXPECT_NE(fault("[1").find("not JSON"), std::string::npos);
  EXPECT_NE(fault("[]").find("not a saved chat"), std::string::npos);
  EXPECT_NE(fault(R"({"format":"ebb-chat","version":2})").find("\"version\" is 2"), std::string::npos);
  EXPECT_NE(fault(R"({"format":"ebb-chat","version":1,"model":3})").find("\"model\" must be a text"),
            std::string::npos);
  EXPECT_NE(fault(head + "3}").find("must be a list"), std::string::npos);
  EXPECT_NE(fault(head + R"([{"role":"user","content":"a"},{"role":"robot","content":"b"}]})")
                .find("message 2: role \"robot\""),
            std::string::npos);
  EXPECT_NE(fault(head + R"([{"role":"user","content":null}]})").find("message 1: \"content\" must be a text"),
            std::string::npos);
  EXPECT_NE(fault(head + "[5]}").find("message 1"), std::string::npos);
  EXPECT_EQ(load_chat(folder.path() / "none").error().code, ErrorCode::NotFound);
}

TEST(ChatFile, IsKnownByItsContent) {
  const TempFolder folder;
  EXPECT_TRUE(is_text_chat(folder.write("a", R"( {"format":"ebb-chat"})")));
  EXPECT_FALSE(is_text_chat(folder.write("b.json", "\x89" "EBB\r\n\x1a\n{")));
  EXPECT_FALSE(is_text_chat(folder.write("c.json", "")));
  EXPECT_FALSE(is_text_chat(folder.path()));
  EXPECT_FALSE(is_text_chat(folder.path() / "none"));
}

}  // namespace
}  // namespace ebb::cli
