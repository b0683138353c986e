#include "base/file_replacement.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/must.h"
#include "support/small_disk.h"
#include "support/temp_folder.h"

namespace ebb {
namespace {

using tests::read_file;
using tests::SmallDisk;
using tests::TempFolder;

Status put(const std::filesystem::path& path, const std::string& text) {
  EBB_TRY_ASSIGN(FileReplacement file, FileReplacement::create(path));
  EBB_TRY(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(FileReplacement, TakesThePlaceInOneStep) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "file";
  tests::must(put(path, "old"));
  {
    auto file = tests::must(FileReplacement::create(path));
    tests::must(file.write(std::as_bytes(std::span("new", 3))));
    EXPECT_EQ(read_file(path), "old") << "until it is whole";
  }
  EXPECT_EQ(read_file(path), "old") << "given up";
  tests::must(put(path, "new"));
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(files_in(folder.path()), 1U);
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

// X8: a disk that is full, a folder that cannot be written, a name that is taken by a folder.
TEST(FileReplacement, RefusalLeavesTheOldFileAndNothingElse) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "file";
  tests::must(put(path, "old"));
  {
    const SmallDisk disk(1000);
    const Status refused = put(path, std::string(5000, 'x'));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::Io);
    EXPECT_NE(refused.error().message.find(path.string() + ": cannot be written: "), std::string::npos) << refused.error().message;
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(put(folder.path() / "no" / "folder", "x").error().code, ErrorCode::Io);
  std::filesystem::create_directory(folder.path() / "taken");
  EXPECT_EQ(put(folder.path() / "taken", "x").error().code, ErrorCode::Io);
  EXPECT_EQ(files_in(folder.path()), 2U);
}

void age(const std::filesystem::path& folder, std::chrono::seconds by) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::filesystem::last_write_time(entry.path(), std::filesystem::file_time_type::clock::now() - by);
  }
}

// X8: killed in the middle. What it left goes with the next replacement; what is young, being written, or looks alike stays.
TEST(FileReplacement, LeftoversOfAKillGoWithALaterReplacement) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "file";
  tests::must(put(path, "old"));
  const pid_t child = fork();
  if (child == 0) {
    auto file = FileReplacement::create(path);
    if (file && file->write(std::as_bytes(std::span("half", 4)))) raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_file(path), "old");
  ASSERT_EQ(files_in(folder.path()), 2U);
  tests::must(put(path, "new"));
  EXPECT_EQ(files_in(folder.path()), 2U) << "it may be somebody's who has not locked it yet";

  auto other = tests::must(FileReplacement::create(path));
  // Other rights; another length; another file's.
  for (const char* name : {"file.backup", "file.123456", "file.1234567", "file2.abcdef"}) folder.write(name, "mine");
  for (const char* name : {"file.1234567", "file2.abcdef"}) {
    std::filesystem::permissions(folder.path() / name, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  std::filesystem::permissions(folder.path() / "file.backup", std::filesystem::perms(0644));
  std::filesystem::permissions(folder.path() / "file.123456", std::filesystem::perms(0644));
  age(folder.path(), std::chrono::minutes(5));
  ASSERT_EQ(files_in(folder.path()), 7U);
  tests::must(put(path, "newer"));
  EXPECT_EQ(files_in(folder.path()), 6U) << "the child's alone is gone";
  tests::must(other.write(std::as_bytes(std::span("last", 4))));
  tests::must(other.commit());
  EXPECT_EQ(read_file(path), "last");
  EXPECT_EQ(files_in(folder.path()), 5U);
}

}  // namespace
}  // namespace ebb
