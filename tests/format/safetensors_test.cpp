#include "format/internal/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf_writer.h"

namespace ebb::format {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string file_of(std::string_view header, std::size_t data_bytes) {
  std::string bytes = packed(std::uint64_t{header.size()}) + std::string(header);
  for (std::size_t idx = 0; idx < data_bytes; ++idx) bytes += static_cast<char>(idx);
  return bytes;
}

std::string entry(std::string_view name, std::string_view dtype, std::string_view shape, std::string_view offsets) {
  std::string text =
      "\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":[" + std::string(shape);
  return text + "],\"data_offsets\":[" + std::string(offsets) + "]}";
}

Error refused(const std::string& bytes) {
  const auto tensors = parse_safetensors(as_span(bytes), "x.safetensors");
  EXPECT_FALSE(tensors.has_value());
  return tensors ? Error{} : tensors.error();
}

Error refused_header(const std::string& header, std::size_t data_bytes) { return refused(file_of(header, data_bytes)); }

Error refused_index(const std::string& text) {
  const auto map = parse_safetensors_index(as_span(text), "index.json");
  EXPECT_FALSE(map.has_value());
  return map ? Error{} : map.error();
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  const std::string bytes = file_of("{" + entry("b", "BF16", "3,2", "8,20") + ",\"__metadata__\":{\"format\":\"pt\"}," +
                                        entry("a", "I64", "", "0,8") + "," + entry("e", "F32", "0,4", "8,8") + "}   ",
                                    20);
  const auto tensors = parse_safetensors(as_span(bytes), "x.safetensors");
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_TRUE((*tensors)[0].shape.empty());
  EXPECT_EQ((*tensors)[1].name, "e");
  EXPECT_EQ((*tensors)[1].data.size(), 0u);
  EXPECT_EQ((*tensors)[2].name, "b");
  EXPECT_EQ((*tensors)[2].dtype, "BF16");
  EXPECT_THAT((*tensors)[2].shape, ElementsAre(3, 2));
  EXPECT_EQ(static_cast<int>((*tensors)[2].data[0]), 8);
  EXPECT_EQ((*tensors)[2].file_offset, bytes.size() - 12);
}

TEST(Safetensors, AcceptsAFileWithoutTensors) {
  const auto tensors = parse_safetensors(as_span(file_of("{}", 0)), "x.safetensors");
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_TRUE(tensors->empty());
}

TEST(Safetensors, RefusesHeadersOfTheWrongLength) {
  EXPECT_THAT(refused("123").message, HasSubstr("ends inside the header length"));
  EXPECT_THAT(refused(packed(std::uint64_t{100'000'001}) + "{}").message, HasSubstr("at most 100000000 are accepted"));
  EXPECT_THAT(refused(packed(~std::uint64_t{0}) + "{}").message, HasSubstr("at most 100000000 are accepted"));
  EXPECT_THAT(refused(packed(std::uint64_t{50}) + "{}").message, HasSubstr("ends inside the header of 50 bytes"));
  EXPECT_THAT(refused(packed(std::uint64_t{0})).message, HasSubstr("does not start with {"));
  EXPECT_THAT(refused("GGUF" + packed(3u) + " and so on").message, HasSubstr("a GGUF file"));
  EXPECT_THAT(refused_header("[]", 0).message, HasSubstr("does not start with {"));
}

TEST(Safetensors, RefusesBrokenJson) {
  EXPECT_THAT(refused_header("{\"a\":}", 0).message, HasSubstr("offset 14: not valid JSON"));
  EXPECT_THAT(refused_header("{} x", 0).message, HasSubstr("not valid JSON"));
  EXPECT_THAT(refused_header("{\"a\":1e999}", 0).message, HasSubstr("x.safetensors: "));
  EXPECT_THAT(refused_header("{\"\xff\":{}}", 0).message, HasSubstr("not valid JSON"));
}

TEST(Safetensors, RefusesDeepNestingWithoutUsingTheStack) {
  std::string deep = "{\"weight_map\":{},\"metadata\":";
  deep += std::string(1'000'000, '[');
  EXPECT_THAT(refused_index(deep).message, HasSubstr("nested more than 32 deep"));
  EXPECT_THAT(refused_header("{\"a\":" + std::string(1'000'000, '['), 0).message,
              HasSubstr("\"a\" is not of the form"));
}

TEST(Safetensors, RefusesEntriesOfAnotherForm) {
  EXPECT_THAT(refused_header("{\"a\":1}", 0).message, HasSubstr("\"a\" is not of the form"));
  EXPECT_THAT(refused_header("{\"a\":{}}", 0).message, HasSubstr("needs dtype, shape and two data_offsets"));
  EXPECT_THAT(refused_header("{\"a\":{\"dtype\":7}}", 0).message, HasSubstr("is not of the form"));
  EXPECT_THAT(refused_header("{\"a\":{\"colour\":\"red\"}}", 0).message, HasSubstr("is not of the form"));
  EXPECT_THAT(refused_header("{\"a\":{\"shape\":[[1]]}}", 0).message, HasSubstr("is not of the form"));
  EXPECT_THAT(refused_header("{" + entry("a", "U8", "1", "0,1,2") + "}", 1).message, HasSubstr("two data_offsets"));
  EXPECT_THAT(refused_header("{" + entry("a", "U8", "-1", "0,1") + "}", 1).message, HasSubstr("whole numbers only"));
  EXPECT_THAT(refused_header("{" + entry("a", "U8", "1.0", "0,1") + "}", 1).message, HasSubstr("whole numbers only"));
  EXPECT_THAT(refused_header("{" + entry("a", "U8", "1,1,1,1,1,1,1,1,1", "0,1") + "}", 1).message,
              HasSubstr("more than 8 numbers"));
  EXPECT_THAT(refused_header("{\"__metadata__\":{\"a\":1}}", 0).message, HasSubstr("__metadata__"));
}

TEST(Safetensors, RefusesRepeatedNamesAndFields) {
  const std::string a = entry("a", "U8", "1", "0,1");
  EXPECT_THAT(refused_header("{" + a + "," + a + "}", 1).message, HasSubstr("names \"a\" twice"));
  EXPECT_THAT(refused_header("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 1).message,
              HasSubstr("has the field dtype twice"));
}

TEST(Safetensors, RefusesSizesThatContradictEachOther) {
  EXPECT_THAT(refused_header("{" + entry("a", "F32", "2", "0,4") + "}", 4).message, HasSubstr("[2] of F32 takes 8"));
  EXPECT_THAT(refused_header("{" + entry("a", "F4", "1", "0,0") + "}", 0).message, HasSubstr("\"a\" has 0 bytes"));
  EXPECT_THAT(refused_header("{" + entry("a", "U8", "1", "2,1") + "}", 1).message,
              HasSubstr("ends at 1 before it begins at 2"));
  EXPECT_THAT(refused_header("{" + entry("a", "F32", "4294967296,4294967296", "0,0") + "}", 0).message,
              HasSubstr("does not fit in 64 bits"));
  EXPECT_THAT(refused_header("{" + entry("a", "U8", "2305843009213693951", "0,2305843009213693951") + "}", 1).message,
              HasSubstr("cut short"));
  EXPECT_THAT(refused_header("{" + entry("a", "U8", "99999999999999999999", "0,1") + "}", 1).message,
              HasSubstr("whole numbers only"));
  const Error unknown = refused_header("{" + entry("a", "F128", "1", "0,16") + "}", 16);
  EXPECT_EQ(unknown.code, ErrorCode::Unsupported);
  EXPECT_THAT(unknown.message, HasSubstr("unknown type \"F128\""));
}

TEST(Safetensors, RefusesHolesOverlapAndTrailingBytes) {
  EXPECT_THAT(refused_header("{" + entry("a", "U8", "2", "0,2") + "," + entry("b", "U8", "2", "1,3") + "}", 3).message,
              HasSubstr("tensor \"b\" begins inside \"a\""));
  EXPECT_THAT(refused_header("{" + entry("a", "U8", "2", "0,2") + "," + entry("b", "U8", "2", "3,5") + "}", 5).message,
              HasSubstr("tensor \"b\" leaves a hole after \"a\""));
  EXPECT_THAT(refused_header("{" + entry("a", "U8", "2", "1,3") + "}", 3).message,
              HasSubstr("leaves a hole after \"the header\""));
  EXPECT_THAT(refused_header("{" + entry("a", "U8", "2", "0,2") + "}", 3).message, HasSubstr("nothing may follow"));
}

// Issue part 1, bad input: a file cut at every 1/20 of its length; here at every byte.
TEST(Safetensors, RefusesTruncationEverywhere) {
  const std::string whole =
      file_of("{" + entry("a", "F32", "4,4", "0,64") + "," + entry("b", "BF16", "8", "64,80") + "}", 80);
  ASSERT_TRUE(parse_safetensors(as_span(whole), "x.safetensors"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Error error = refused(whole.substr(0, size));
    EXPECT_EQ(error.code, ErrorCode::BadFile);
    EXPECT_THAT(error.message, HasSubstr("fetch it again")) << size;
  }
}

TEST(SafetensorsIndex, ReadsTheWeightMapAndSkipsTheRest) {
  const std::string text =
      R"({"metadata":{"total_size":8,"more":[{"x":null}]},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"},"z":1})";
  const auto map = parse_safetensors_index(as_span(text), "index.json");
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ(map->at("a"), "m-1.safetensors");
  EXPECT_EQ(map->at("b"), "m-2.safetensors");
}

TEST(SafetensorsIndex, RefusesFilesOutsideItsFolder) {
  for (const std::string_view file :
       {"../x.safetensors", "/etc/x.safetensors", "sub/x.safetensors", "..\\\\x.safetensors", "x\\u0000.safetensors",
        "..", "", ".safetensors", "x.bin"}) {
    EXPECT_THAT(refused_index(R"({"weight_map":{"a":")" + std::string(file) + "\"}}").message,
                HasSubstr("plain names of .safetensors files"));
  }
}

TEST(SafetensorsIndex, RefusesMapsOfAnotherForm) {
  EXPECT_THAT(refused_index("{}").message, HasSubstr("has no weight_map"));
  EXPECT_THAT(refused_index("7").message, HasSubstr("not a JSON object"));
  EXPECT_THAT(refused_index("[]").message, HasSubstr("weight_map must be an object"));
  EXPECT_THAT(refused_index(R"({"weight_map":[]})").message, HasSubstr("weight_map must be an object"));
  EXPECT_THAT(refused_index(R"({"weight_map":{"a":1}})").message, HasSubstr("weight_map must be an object"));
  EXPECT_THAT(refused_index(R"({"weight_map":{"a":{}}})").message, HasSubstr("weight_map must be an object"));
  EXPECT_THAT(refused_index(R"({"weight_map":{"a":"x.safetensors","a":"x.safetensors"}})").message,
              HasSubstr("names \"a\" twice"));
  EXPECT_THAT(refused_index(R"({"weight_map":{},"weight_map":{}})").message, HasSubstr("twice"));
}

}  // namespace
}  // namespace ebb::format
