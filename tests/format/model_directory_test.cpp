#include "format/model_directory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <utility>

#include "gguf_writer.h"
#include "support/temp_folder.h"

namespace ebb::format {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::read_file;
using tests::TempFolder;

const std::filesystem::path kVectors = EBB_VECTORS_DIR;

std::unique_ptr<ModelDirectory> opened(const std::filesystem::path& path) {
  auto directory = ModelDirectory::open(path);
  EXPECT_TRUE(directory) << directory.error().message;
  return directory ? std::move(*directory) : nullptr;
}

Error refused(const std::filesystem::path& path) {
  const auto directory = ModelDirectory::open(path);
  EXPECT_FALSE(directory.has_value()) << path;
  return directory ? Error{} : directory.error();
}

/// A part of a split model: the first carries the metadata, each has its own tensors.
std::string part(std::uint16_t number, std::uint16_t count, const std::vector<std::string>& tensors,
                 std::int32_t total = -1) {
  GgufWriter writer;
  if (number == 0) writer.text("general.architecture", "gemma3");
  writer.meta("split.no", U16, packed(number)).meta("split.count", U16, packed(count));
  if (total >= 0) writer.meta("split.tensors.count", I32, packed(total));
  for (const std::string& name : tensors) writer.f32(name, {8});
  return writer.bytes();
}

TEST(ModelDirectory, OpensTheGgufTwins) {
  const auto directory = opened(kVectors / "gguf/t0-base-f32.gguf");
  ASSERT_NE(directory, nullptr);
  EXPECT_EQ(directory->container(), Container::Gguf);
  EXPECT_EQ(directory->mapped_bytes(), 545824u);  // expected.json
  EXPECT_EQ(directory->tensors().size(), 80u);
  EXPECT_EQ(directory->meta_string("general.architecture"), "gemma3");
  EXPECT_EQ(directory->meta_uint("gemma3.block_count"), 6u);
  EXPECT_EQ(directory->meta_uint("gemma3.attention.sliding_window"), 16u);
  EXPECT_FLOAT_EQ(static_cast<float>(directory->meta_float("gemma3.rope.freq_base").value()), 1e6f);
  EXPECT_EQ(directory->meta_float("gemma3.block_count"), 6.0);
  EXPECT_EQ(directory->meta_uint("general.architecture"), std::nullopt);
  EXPECT_EQ(directory->meta_string("absent"), std::nullopt);
  EXPECT_EQ(directory->meta("absent"), nullptr);
  const auto& tokens = std::get<std::vector<std::string_view>>(*directory->meta("tokenizer.ggml.tokens"));
  ASSERT_EQ(tokens.size(), 320u);
  EXPECT_EQ(tokens[2], "<bos>");
  EXPECT_EQ(std::get<std::vector<float>>(*directory->meta("tokenizer.ggml.scores")).size(), 320u);
  EXPECT_EQ(std::get<std::vector<std::int32_t>>(*directory->meta("tokenizer.ggml.token_type")).size(), 320u);
  const TensorEntry* table = directory->find("token_embd.weight");
  ASSERT_NE(table, nullptr);
  EXPECT_THAT(table->shape, ElementsAre(320, 64));
  EXPECT_EQ(table->view().rows, 320u);
  EXPECT_EQ(table->view().cols, 64u);
  EXPECT_EQ(directory->find("absent"), nullptr);
  EXPECT_EQ(directory->side_file("config.json").error().code, ErrorCode::NotFound);
}

TEST(ModelDirectory, OpensQuantisedTwinsAndTheProjector) {
  const std::vector<std::pair<std::string, std::set<DType>>> wanted = {
      {"t0-base-q8_0", {DType::F32, DType::Q8_0}},
      {"t2-head128-q4_k_m", {DType::F32, DType::Q5_0, DType::Q8_0, DType::Q4_K, DType::Q6_K}},
      {"k256-q4_k_m", {DType::F32, DType::Q4_K, DType::Q6_K, DType::Q5_0}},
      {"v0-56-f32", {DType::F32}},
      {"mmproj-v0-56-f16", {DType::F32, DType::F16}}};
  for (const auto& [name, types] : wanted) {
    const auto directory = opened(kVectors / "gguf" / (name + ".gguf"));
    ASSERT_NE(directory, nullptr);
    std::set<DType> found;
    for (const TensorEntry& tensor : directory->tensors()) found.insert(tensor.dtype);
    EXPECT_EQ(found, types) << name;
  }
  EXPECT_EQ(opened(kVectors / "gguf/mmproj-v0-56-f16.gguf")->meta_string("general.architecture"), "clip");
}

TEST(ModelDirectory, OpensHuggingFaceFolders) {
  for (const auto& [name, dtype] :
       {std::pair("t0-base", DType::F32), std::pair("t1-rope8", DType::BF16), std::pair("t5-padrows", DType::F16)}) {
    const auto directory = opened(kVectors / "text" / name);
    ASSERT_NE(directory, nullptr);
    EXPECT_EQ(directory->container(), Container::Safetensors);
    EXPECT_EQ(directory->tensors().front().dtype, dtype);
    const auto config = directory->side_file("config.json");
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_THAT(*config, HasSubstr("hidden_size"));
  }
}

TEST(ModelDirectory, GivesTheSameWeightsFromBothContainers) {
  const auto folder = opened(kVectors / "text/t0-base");
  const auto gguf = opened(kVectors / "gguf/t0-base-f32.gguf");
  ASSERT_TRUE(folder && gguf);
  const TensorEntry* a = folder->find("model.layers.3.mlp.down_proj.weight");
  const TensorEntry* b = gguf->find("blk.3.ffn_down.weight");
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(a->shape, b->shape);
  ASSERT_EQ(a->bytes, b->bytes);
  EXPECT_EQ(std::memcmp(a->data, b->data, a->bytes), 0);
}

TEST(ModelDirectory, OpensShardsByFolderAndByIndex) {
  for (const char* path : {"text/t6-sharded", "text/t6-sharded/model.safetensors.index.json"}) {
    const auto directory = opened(kVectors / path);
    ASSERT_NE(directory, nullptr);
    EXPECT_EQ(directory->files().size(), 3u);
    EXPECT_EQ(directory->tensors().size(), 106u);
    EXPECT_TRUE(directory->side_file("tokenizer.json"));
  }
  const auto one = opened(kVectors / "text/t6-sharded/model-00002-of-00003.safetensors");
  ASSERT_NE(one, nullptr);
  EXPECT_LT(one->tensors().size(), 106u);
}

TEST(ModelDirectory, RefusesSideFilesElsewhere) {
  const auto directory = opened(kVectors / "text/t0-base");
  ASSERT_NE(directory, nullptr);
  for (const std::string_view name : {"../t1-rope8/config.json", "/etc/passwd", "..", ""}) {
    EXPECT_EQ(directory->side_file(name).error().code, ErrorCode::InvalidArgument) << name;
  }
  EXPECT_EQ(directory->side_file("absent.json").error().code, ErrorCode::NotFound);
}

TEST(ModelDirectory, SaysWhatAFolderHoldsInstead) {
  const TempFolder folder;
  EXPECT_THAT(refused(folder.path()).message, HasSubstr("and no other model file"));
  for (int idx = 0; idx < 9; ++idx) folder.write(fmt::format("m{}.gguf", idx), "x");
  const Error error = refused(folder.path());
  EXPECT_EQ(error.code, ErrorCode::NotFound);
  EXPECT_THAT(error.message, HasSubstr("name one of its files: m0.gguf, m1.gguf"));
  EXPECT_THAT(error.message, HasSubstr("m7.gguf, ..."));
}

TEST(ModelDirectory, RefusesMissingAndForeignFiles) {
  const TempFolder folder;
  EXPECT_EQ(refused(folder.path() / "absent.gguf").code, ErrorCode::NotFound);
  EXPECT_THAT(refused(folder.write("model.gguf", "<html>")).message, HasSubstr("not a model file but a web page"));
  EXPECT_THAT(refused(folder.write("model.bin", "PK\x03\x04")).message, HasSubstr("zip archive"));
  EXPECT_THAT(refused(folder.write("config.json", "{}")).message, HasSubstr("has no weight_map"));
  EXPECT_THAT(refused(folder.write("empty.gguf", "")).message, HasSubstr("is empty"));
}

TEST(ModelDirectory, RefusesSafetensorsTypesItDoesNotLoad) {
  const TempFolder folder;
  const std::string header = R"({"position_ids":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})";
  const Error error =
      refused(folder.write("model.safetensors", packed(std::uint64_t{header.size()}) + header + "12345678"));
  EXPECT_EQ(error.code, ErrorCode::Unsupported);
  EXPECT_THAT(error.message, HasSubstr("\"position_ids\" has type I64; accepted are F32, F16, BF16"));
}

// Issue part 1, bad input: files cut at every 1/20 of their length.
TEST(ModelDirectory, RefusesRealFilesCutAtEveryTwentieth) {
  const TempFolder folder;
  for (const char* name : {"gguf/t2-head128-q4_k_m.gguf", "text/t1-rope8/model.safetensors"}) {
    const std::string whole = read_file(kVectors / name);
    ASSERT_FALSE(whole.empty()) << name;
    for (std::size_t twentieth = 1; twentieth < 20; ++twentieth) {
      const auto path =
          folder.write(std::filesystem::path(name).filename().string(), whole.substr(0, whole.size() * twentieth / 20));
      const Error error = refused(path);
      EXPECT_EQ(error.code, ErrorCode::BadFile);
      EXPECT_THAT(error.message, HasSubstr("fetch it again")) << twentieth;
    }
  }
}

TEST(ModelDirectory, OpensAllPartsOfASplitModelFromAnyOfThem) {
  const TempFolder folder;
  folder.write("m-00001-of-00003.gguf", part(0, 3, {}, 3));
  folder.write("m-00002-of-00003.gguf", part(1, 3, {"a", "b"}));
  folder.write("m-00003-of-00003.gguf", part(2, 3, {"c"}));
  for (const char* name : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const auto directory = opened(folder.path() / name);
    ASSERT_NE(directory, nullptr);
    EXPECT_EQ(directory->files().size(), 3u);
    EXPECT_EQ(directory->meta_string("general.architecture"), "gemma3");
    EXPECT_EQ(directory->tensors().size(), 3u);
    EXPECT_EQ(directory->find("a")->file_idx, 1u);
    EXPECT_EQ(directory->find("c")->file_idx, 2u);
  }
}

TEST(ModelDirectory, RefusesSplitModelsThatDoNotFitTogether) {
  const TempFolder folder;
  const auto first = folder.write("m-00001-of-00002.gguf", part(0, 2, {"a"}, 2));
  const Error missing = refused(first);
  EXPECT_EQ(missing.code, ErrorCode::NotFound);
  EXPECT_THAT(missing.message, HasSubstr("m-00002-of-00002.gguf: part 2 of 2 is missing"));
  folder.write("m-00002-of-00002.gguf", part(1, 3, {"b"}));
  EXPECT_THAT(refused(first).message, HasSubstr("says it is part 2 of 3, but by its name it is part 2 of 2"));
  folder.write("m-00002-of-00002.gguf", GgufWriter().f32("b", {8}).bytes());
  EXPECT_THAT(refused(first).message, HasSubstr("says it is part 1 of 1"));
  folder.write("m-00002-of-00002.gguf", part(1, 2, {"a"}));
  EXPECT_THAT(refused(first).message, HasSubstr("tensor \"a\" also stands in"));
  folder.write("m-00002-of-00002.gguf", part(1, 2, {"b", "c"}));
  EXPECT_THAT(refused(first).message, HasSubstr("split.tensors.count is 2, but the 2 parts hold 3 tensors"));
  EXPECT_THAT(refused(folder.write("renamed.gguf", part(1, 2, {"b"}))).message,
              HasSubstr("its name must end in \"-00002-of-00002.gguf\""));
  EXPECT_THAT(refused(folder.write("n-00003-of-00002.gguf", part(2, 2, {"b"}))).message, HasSubstr("says it is part"));
  EXPECT_THAT(refused(folder.write("o-00001-of-09999.gguf", part(0, 9999, {}))).message, HasSubstr("1 to 1000 parts"));
}

TEST(ModelDirectory, RefusesShardsThatContradictTheIndex) {
  const TempFolder folder;
  const auto shard = [&](std::string_view file, std::string_view tensor) {
    const std::string header = "{\"" + std::string(tensor) + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    folder.write(file, packed(std::uint64_t{header.size()}) + header + "1234");
  };
  const auto index = [&](std::string_view map) {
    return folder.write("model.safetensors.index.json", "{\"weight_map\":" + std::string(map) + "}");
  };
  shard("one.safetensors", "a");
  shard("two.safetensors", "b");
  EXPECT_NE(opened(index(R"({"a":"one.safetensors","b":"two.safetensors"})")), nullptr);
  const Error missing = refused(index(R"({"a":"one.safetensors","b":"three.safetensors"})"));
  EXPECT_EQ(missing.code, ErrorCode::NotFound);
  EXPECT_THAT(missing.message, HasSubstr("the shard three.safetensors is missing"));
  EXPECT_THAT(refused(index(R"({"a":"two.safetensors","b":"one.safetensors"})")).message,
              HasSubstr("which weight_map sends to two.safetensors"));
  EXPECT_THAT(refused(index(R"({"a":"one.safetensors","c":"two.safetensors"})")).message,
              HasSubstr("which weight_map does not list"));
  EXPECT_THAT(refused(index(R"({"a":"one.safetensors","c":"one.safetensors"})")).message,
              HasSubstr("which does not hold it"));
  EXPECT_THAT(refused(index(R"({"a":"../one.safetensors"})")).message, HasSubstr("plain names"));
  EXPECT_THAT(refused(index("{\"a\":")).message, HasSubstr("not valid JSON"));
  shard("two.safetensors", "a");
  EXPECT_THAT(refused(index(R"({"a":"one.safetensors","b":"two.safetensors"})")).message,
              HasSubstr("which weight_map sends to"));
}

}  // namespace
}  // namespace ebb::format
