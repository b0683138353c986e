#include "format/internal/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "gguf_writer.h"

namespace ebb::format {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The error of bytes that must be refused; a success reads as an empty sentence.
Error refused(const std::string& bytes) {
  const auto gguf = parse_gguf(as_span(bytes), "x.gguf");
  EXPECT_FALSE(gguf.has_value());
  return gguf ? Error{} : gguf.error();
}

TEST(Gguf, ReadsEveryValueType) {
  GgufWriter writer;
  writer.meta("u8", U8, packed(std::uint8_t{200})).meta("i8", I8, packed(std::int8_t{-3}));
  writer.meta("u16", U16, packed(std::uint16_t{60000})).meta("i16", I16, packed(std::int16_t{-300}));
  writer.meta("u32", U32, packed(4000000000u)).meta("i32", I32, packed(-70000)).meta("f32", F32, packed(0.5f));
  writer.meta("bool", Bool, packed(std::uint8_t{1})).text("string", "gemma3").meta("f64", F64, packed(0.25));
  writer.meta("u64", U64, packed(std::numeric_limits<std::uint64_t>::max())).meta("i64", I64, packed(std::int64_t{-5}));
  const std::string bytes = writer.bytes();
  const auto gguf = parse_gguf(as_span(bytes), "x.gguf");
  ASSERT_TRUE(gguf) << gguf.error().message;
  const auto& meta = gguf->meta;
  EXPECT_EQ(std::get<std::uint64_t>(meta.at("u8")), 200u);
  EXPECT_EQ(std::get<std::int64_t>(meta.at("i8")), -3);
  EXPECT_EQ(std::get<std::uint64_t>(meta.at("u16")), 60000u);
  EXPECT_EQ(std::get<std::int64_t>(meta.at("i16")), -300);
  EXPECT_EQ(std::get<std::uint64_t>(meta.at("u32")), 4000000000u);
  EXPECT_EQ(std::get<std::int64_t>(meta.at("i32")), -70000);
  EXPECT_EQ(std::get<double>(meta.at("f32")), 0.5);
  EXPECT_TRUE(std::get<bool>(meta.at("bool")));
  EXPECT_EQ(std::get<std::string_view>(meta.at("string")), "gemma3");
  EXPECT_EQ(std::get<double>(meta.at("f64")), 0.25);
  EXPECT_EQ(std::get<std::uint64_t>(meta.at("u64")), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(std::get<std::int64_t>(meta.at("i64")), -5);
  EXPECT_EQ(meta_as_uint(meta, "u8"), 200u);
  EXPECT_EQ(meta_as_uint(meta, "i8"), std::nullopt);
  EXPECT_EQ(meta_as_uint(meta, "f32"), std::nullopt);
  EXPECT_EQ(meta_as_uint(meta, "absent"), std::nullopt);
}

TEST(Gguf, ReadsArraysAndLeavesStringsInTheFile) {
  const std::uint32_t beyond = 3000000000u;
  GgufWriter writer;
  writer.meta("strings", Array, packed_array(String, 2, packed_string("a") + packed_string("")));
  writer.meta("bools", Array, packed_array(Bool, 3, std::string("\1\0\1", 3)));
  writer.meta("i32", Array, packed_array(I32, 2, packed(-1) + packed(7)));
  writer.meta("i64", Array, packed_array(I64, 1, packed(std::int64_t{-9})));
  writer.meta("beyond", Array, packed_array(U32, 1, packed(beyond)));
  writer.meta("f32", Array, packed_array(F32, 1, packed(1.5f)));
  writer.meta("f64", Array, packed_array(F64, 1, packed(2.5)));
  writer.meta("nested", Array, packed_array(Array, 2, packed_array(U16, 1, "ab") + packed_array(String, 0, "")));
  writer.meta("empty", Array, packed_array(I32, 0, ""));
  const std::string bytes = writer.bytes();
  const auto gguf = parse_gguf(as_span(bytes), "x.gguf");
  ASSERT_TRUE(gguf) << gguf.error().message;
  const auto& meta = gguf->meta;
  const auto& strings = std::get<std::vector<std::string_view>>(meta.at("strings"));
  EXPECT_THAT(strings, ElementsAre("a", ""));
  EXPECT_TRUE(strings[0].data() > bytes.data() && strings[0].data() < bytes.data() + bytes.size());
  EXPECT_THAT(std::get<std::vector<std::uint8_t>>(meta.at("bools")), ElementsAre(1, 0, 1));
  EXPECT_THAT(std::get<std::vector<std::int32_t>>(meta.at("i32")), ElementsAre(-1, 7));
  EXPECT_THAT(std::get<std::vector<std::int32_t>>(meta.at("i64")), ElementsAre(-9));
  EXPECT_EQ(std::get<OpaqueArray>(meta.at("beyond")).count, 1u);
  EXPECT_THAT(std::get<std::vector<float>>(meta.at("f32")), ElementsAre(1.5f));
  EXPECT_THAT(std::get<std::vector<float>>(meta.at("f64")), ElementsAre(2.5f));
  EXPECT_EQ(std::get<OpaqueArray>(meta.at("nested")).count, 2u);
  EXPECT_TRUE(std::get<std::vector<std::int32_t>>(meta.at("empty")).empty());
}

TEST(Gguf, ReadsTensorsOfEveryAcceptedType) {
  GgufWriter writer;
  for (int idx = 0; idx < kDTypeCount; ++idx) {
    const DTypeInfo& info = dtype_info(static_cast<DType>(idx));
    const std::size_t values = 2 * info.block_values;
    writer.tensor(std::string(info.name), {values, 3}, info.ggml_id, 3 * row_bytes(static_cast<DType>(idx), values));
  }
  const std::string bytes = writer.bytes();
  const auto gguf = parse_gguf(as_span(bytes), "x.gguf");
  ASSERT_TRUE(gguf) << gguf.error().message;
  ASSERT_EQ(gguf->tensors.size(), static_cast<std::size_t>(kDTypeCount));
  for (std::size_t idx = 0; idx < gguf->tensors.size(); ++idx) {
    const TensorEntry& tensor = gguf->tensors[idx];
    EXPECT_EQ(tensor.dtype, static_cast<DType>(idx));
    EXPECT_THAT(tensor.shape, ElementsAre(3, 2 * dtype_info(tensor.dtype).block_values));
    EXPECT_EQ(tensor.view().bytes(), tensor.bytes);
    EXPECT_EQ(static_cast<unsigned char>(bytes[tensor.file_offset]), idx + 1);  // the writer's pattern
    EXPECT_EQ(static_cast<const void*>(tensor.data), bytes.data() + tensor.file_offset);
  }
}

TEST(Gguf, AcceptsVersion2AndOtherAlignments) {
  for (const std::uint32_t alignment : {1u, 8u, 64u, 4096u}) {
    GgufWriter writer;
    writer.version = 2;
    writer.alignment = alignment;
    writer.count("general.alignment", alignment).f32("a", {3}).f32("b", {5, 2, 1, 2});
    const std::string bytes = writer.bytes();
    const auto gguf = parse_gguf(as_span(bytes), "x.gguf");
    ASSERT_TRUE(gguf) << gguf.error().message;
    EXPECT_EQ(gguf->alignment, alignment);
    EXPECT_THAT(gguf->tensors[1].shape, ElementsAre(2, 1, 2, 5));
    EXPECT_EQ(gguf->tensors[1].view().rows, 4u);
  }
}

TEST(Gguf, AcceptsAFileWithoutTensorsAndAScalar) {
  const std::string none = GgufWriter().text("general.architecture", "gemma3").bytes();
  EXPECT_TRUE(parse_gguf(as_span(none), "x.gguf"));
  const std::string scalar = GgufWriter().f32("s", {}).bytes();
  const auto gguf = parse_gguf(as_span(scalar), "x.gguf");
  ASSERT_TRUE(gguf) << gguf.error().message;
  EXPECT_EQ(gguf->tensors[0].bytes, 4u);
  EXPECT_EQ(gguf->tensors[0].view().rows, 1u);
  EXPECT_EQ(gguf->tensors[0].view().cols, 1u);
}

TEST(Gguf, RefusesUnknownTypesByName) {
  const Error known = refused(GgufWriter().tensor("blk.0.ffn_up.weight", {256}, 16, 66).bytes());
  EXPECT_EQ(known.code, ErrorCode::Unsupported);
  EXPECT_THAT(known.message, HasSubstr("\"blk.0.ffn_up.weight\" has type IQ2_XXS (id 16); accepted are F32"));
  EXPECT_THAT(refused(GgufWriter().tensor("a", {32}, 39, 17).bytes()).message, HasSubstr("MXFP4 (id 39)"));
  EXPECT_THAT(refused(GgufWriter().tensor("a", {32}, 4, 17).bytes()).message, HasSubstr("Q4_2 (id 4)"));
  EXPECT_THAT(refused(GgufWriter().tensor("a", {32}, 777, 17).bytes()).message, HasSubstr("unknown (id 777)"));
}

TEST(Gguf, RefusesOtherVersionsAndByteOrder) {
  GgufWriter writer;
  writer.version = 1;
  EXPECT_THAT(refused(writer.bytes()).message, HasSubstr("version 1; 2 and 3 are accepted"));
  writer.version = 4;
  EXPECT_EQ(refused(writer.bytes()).code, ErrorCode::Unsupported);
  writer.version = 0x03000000;
  EXPECT_THAT(refused(writer.bytes()).message, HasSubstr("big-endian"));
}

TEST(Gguf, SaysWhatAWrongFileIs) {
  const auto says = [](const std::string& bytes) { return refused(bytes).message; };
  EXPECT_THAT(says("PK\x03\x04 and more"), HasSubstr("zip archive"));
  EXPECT_THAT(says("<!DOCTYPE html>"), HasSubstr("web page"));
  EXPECT_THAT(says("version https://git-lfs.github.com/spec/v1"), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(says("tjgg\1\0\0\0"), HasSubstr("before GGUF"));
  EXPECT_THAT(says(packed(std::uint64_t{64}) + "{\"a\":1}"), HasSubstr("a safetensors file"));
  EXPECT_THAT(says(std::string(100, '\0')), HasSubstr("zero bytes only"));
  EXPECT_THAT(says("{\"model_type\":"), HasSubstr("JSON text"));
  EXPECT_THAT(says("\x01\x02\x03\x04\x05"), HasSubstr("01 02 03 04 05"));
  EXPECT_THAT(says("GG"), HasSubstr("ends inside the magic number"));
}

TEST(Gguf, RefusesHugeCountsBeforeItBelievesThem) {
  GgufWriter writer;
  writer.claimed_tensors = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(refused(writer.bytes()).message, HasSubstr("18446744073709551615 tensors are claimed"));
  writer.claimed_tensors = 60000;
  EXPECT_THAT(refused(writer.bytes()).message, HasSubstr("60000 tensors are claimed, but only 0 bytes"));
  writer.claimed_tensors.reset();
  writer.claimed_meta = std::uint64_t{1} << 62;
  EXPECT_THAT(refused(writer.bytes()).message, HasSubstr("metadata entries are claimed"));
  for (const GgufValue type : {U8, U64, String, Array}) {
    for (const std::uint64_t count :
         {std::uint64_t{1} << 40, std::uint64_t{1} << 61, std::numeric_limits<std::uint64_t>::max()}) {
      EXPECT_THAT(refused(GgufWriter().meta("k", Array, packed_array(type, count, "12345678")).bytes()).message,
                  HasSubstr("the array \"k\" claims"));
    }
  }
  const std::string long_key = packed(std::numeric_limits<std::uint64_t>::max()) + "key" + std::string(64, 'x');
  EXPECT_THAT(refused("GGUF" + packed(3u) + packed(std::uint64_t{0}) + packed(std::uint64_t{1}) + long_key).message,
              HasSubstr("ends inside metadata key 1 of 1"));
  EXPECT_THAT(refused(GgufWriter().meta("k", String, packed(std::uint64_t{1} << 63)).bytes()).message,
              HasSubstr("ends inside metadata \"k\""));
}

TEST(Gguf, RefusesNestingBeyondItsDepth) {
  std::string value = packed_array(U8, 1, "x");
  for (int depth = 0; depth < kMaxArrayDepth - 1; ++depth) value = packed_array(Array, 1, value);
  EXPECT_TRUE(parse_gguf(as_span(GgufWriter().meta("k", Array, value).bytes()), "x.gguf"));
  std::string deep;
  for (int depth = 0; depth < 100000; ++depth) deep += packed_array(Array, 1, "");
  EXPECT_THAT(refused(GgufWriter().meta("k", Array, deep + value).bytes()).message,
              HasSubstr("nested more than 4 deep"));
}

TEST(Gguf, RefusesBadKeysAndValues) {
  EXPECT_THAT(refused(GgufWriter().text("", "x").bytes()).message, HasSubstr("has 0 bytes"));
  EXPECT_THAT(refused(GgufWriter().text(std::string(70000, 'k'), "x").bytes()).message, HasSubstr("has 70000 bytes"));
  EXPECT_THAT(refused(GgufWriter().text("twice", "x").text("twice", "y").bytes()).message,
              HasSubstr("\"twice\" stands there a second time"));
  EXPECT_THAT(refused(GgufWriter().meta("k", 13, "xxxxxxxx").bytes()).message,
              HasSubstr("value type 13; 0 to 12 are accepted"));
  EXPECT_THAT(refused(GgufWriter().meta("k", Bool, "\2").bytes()).message, HasSubstr("bool of value 2"));
  EXPECT_THAT(refused(GgufWriter().meta("k\x1b[2J", Bool, "\2").bytes()).message, HasSubstr("k\\x1b[2J"));
}

TEST(Gguf, RefusesAlignmentsThatAreNotPowersOfTwo) {
  for (const std::uint32_t alignment : {0u, 3u, 48u}) {
    EXPECT_THAT(refused(GgufWriter().count("general.alignment", alignment).f32("a", {1}).bytes()).message,
                HasSubstr("a power of two"));
  }
  EXPECT_THAT(refused(GgufWriter().text("general.alignment", "32").f32("a", {1}).bytes()).message,
              HasSubstr("not a whole number"));
  const std::string huge =
      GgufWriter().meta("general.alignment", U64, packed(std::uint64_t{1} << 63)).entry("a", {1}, 0, 0).bytes();
  EXPECT_THAT(refused(huge).message, HasSubstr("cut short"));
}

TEST(Gguf, RefusesBadShapes) {
  EXPECT_THAT(refused(GgufWriter().entry("a", {4, 0}, 0, 0).bytes()).message, HasSubstr("\"a\" has a dimension of 0"));
  EXPECT_THAT(refused(GgufWriter().entry("a", {1, 1, 1, 1, 1}, 0, 0).bytes()).message,
              HasSubstr("has 5 dimensions; at most 4"));
  EXPECT_THAT(refused(GgufWriter().entry("a", {100}, 12, 0).bytes()).message,
              HasSubstr("rows of 100 values, which is not a multiple of the 256"));
  const std::uint64_t big = std::uint64_t{1} << 32;
  EXPECT_THAT(refused(GgufWriter().entry("a", {big, big}, 0, 0).bytes()).message, HasSubstr("does not fit in 64 bits"));
  EXPECT_THAT(refused(GgufWriter().entry("a", {std::uint64_t{1} << 63}, 0, 0).bytes()).message,
              HasSubstr("does not fit in 64 bits"));
}

TEST(Gguf, RefusesBadNames) {
  EXPECT_THAT(refused(GgufWriter().f32("", {1}).bytes()).message, HasSubstr("has 0 bytes"));
  EXPECT_THAT(refused(GgufWriter().f32(std::string(300, 'n'), {1}).bytes()).message, HasSubstr("300 bytes; 1 to 256"));
  EXPECT_THAT(refused(GgufWriter().f32("a", {1}).f32("a", {1}).bytes()).message,
              HasSubstr("\"a\" stands in the tensor table a second time"));
}

TEST(Gguf, RefusesOffsetsOutsideTheFileAndOverlap) {
  const auto with_offset = [](std::uint64_t offset) {
    return GgufWriter().f32("a", {8}).entry("b", {8}, 0, offset).bytes();
  };
  EXPECT_THAT(refused(with_offset(33)).message,
              HasSubstr("data offset 33, which is not a multiple of the alignment 32"));
  EXPECT_THAT(refused(with_offset(32)).message, HasSubstr("cut short: its tensors reach to byte"));
  EXPECT_THAT(refused(with_offset(std::uint64_t{1} << 62)).message, HasSubstr("cut short"));
  EXPECT_THAT(refused(with_offset(~std::uint64_t{31})).message, HasSubstr("ends beyond 64 bits"));
  EXPECT_THAT(refused(with_offset(0)).message, HasSubstr("tensor \"b\" begins inside tensor \"a\""));
  const std::string inside = GgufWriter().f32("a", {16}).entry("b", {8}, 0, 32).bytes();
  EXPECT_THAT(refused(inside).message, HasSubstr("begins inside"));
}

// Issue part 1, bad input: a file cut at every 1/20 of its length.
TEST(Gguf, RefusesTruncationEverywhere) {
  GgufWriter writer;
  writer.text("general.architecture", "gemma3").count("gemma3.block_count", 6);
  writer.meta("tokens", Array, packed_array(String, 3, packed_string("abc") + packed_string("d") + packed_string("")));
  writer.f32("a", {8, 8}).f32("b", {32, 4}).tensor("c", {256, 2}, 12, 288);
  const std::string whole = writer.bytes();
  ASSERT_TRUE(parse_gguf(as_span(whole), "x.gguf"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string part = whole.substr(0, size);
    const Error error = refused(part);
    EXPECT_EQ(error.code, ErrorCode::BadFile);
    EXPECT_THAT(error.message, HasSubstr("fetch it again")) << size;
  }
}

}  // namespace
}  // namespace ebb::format
