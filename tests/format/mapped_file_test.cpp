#include "format/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <utility>

#include "support/temp_folder.h"

namespace ebb::format {
namespace {

using ::testing::HasSubstr;
using tests::TempFolder;

Error refused(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  EXPECT_FALSE(file.has_value());
  return file ? Error{} : file.error();
}

TEST(MappedFile, GivesTheBytesOfTheFile) {
  const TempFolder folder;
  auto file = MappedFile::open(folder.write("a", "hello"));
  ASSERT_TRUE(file) << file.error().message;
  const MappedFile moved = std::move(*file);
  EXPECT_EQ(moved.bytes().size(), 5u);
  EXPECT_EQ(static_cast<char>(moved.bytes()[4]), 'o');
  EXPECT_EQ(moved.path(), folder.path() / "a");
}

TEST(MappedFile, RefusesWhatIsNoFileWithBytes) {
  const TempFolder folder;
  const Error missing = refused(folder.path() / "missing.gguf");
  EXPECT_EQ(missing.code, ErrorCode::NotFound);
  EXPECT_THAT(missing.message, HasSubstr("missing.gguf: no such file"));
  EXPECT_EQ(refused(folder.write("file", "x") / "below").code, ErrorCode::NotFound);
  EXPECT_THAT(refused(folder.path()).message, HasSubstr("is a folder"));
  const Error empty = refused(folder.write("empty", ""));
  EXPECT_EQ(empty.code, ErrorCode::BadFile);
  EXPECT_THAT(empty.message, HasSubstr("is empty"));
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(refused(folder.path() / "pipe").message, HasSubstr("not a regular file"));
  EXPECT_THAT(refused(folder.path() / std::string(300, 'x')).message, HasSubstr("cannot be read: "));
}

TEST(MappedFile, SaysThatPermissionIsMissing) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TempFolder folder;
  const auto path = folder.write("secret", "x");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  EXPECT_THAT(refused(path).message, HasSubstr("no permission to read it"));
}

}  // namespace
}  // namespace ebb::format
