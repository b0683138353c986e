// What the toy vocabulary shows: sources, types, refusals. Ids of the real one: reference_test.cpp.
#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tokenizer/vectors.h"

namespace ebb::tokenizer {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

json toy() { return json::parse(testing::toy_json()); }

/// A GGUF's arrays with the pieces of the toy vocabulary.
struct ToyArrays {
  ToyArrays() {
    const json file = toy();
    pieces.resize(320);
    arrays.scores.assign(320, -1000.0F);
    arrays.types.assign(320, 1);
    for (const auto& [piece, id] : file["model"]["vocab"].items()) pieces[id.get<std::size_t>()] = piece;
    for (std::size_t at = 297; at < 318; ++at) arrays.scores[at] = -static_cast<float>(at);
    for (std::size_t at = 14; at < 270; ++at) arrays.types[at] = 6;
    for (const std::size_t at : {0, 1, 2, 3, 4, 6, 7, 8, 9}) arrays.types[at] = 3;
    for (const std::size_t at : {5, 10, 11, 12, 13, 318, 319}) arrays.types[at] = 4;
    pieces[12] = "  ";
  }
  Result<std::unique_ptr<Tokenizer>> make() {
    arrays.pieces.assign(pieces.begin(), pieces.end());
    return Tokenizer::from_arrays(arrays);
  }
  std::vector<std::string> pieces;
  VocabularyArrays arrays;
};

TEST(Tokenizer, EncodesTheSameFromBothSources) {
  const auto from_json = testing::tokenizer_from(testing::toy_json());
  auto from_arrays = ToyArrays().make();
  ASSERT_TRUE(from_arrays.has_value()) << from_arrays.error().message;
  for (const std::string_view text : {"", "the thing and the other", "\n\n\n", "<h1>x</h1>", "Ü\xE2\x96\x81",
                                      "<bos>the", "a\xE2\x96\x81\xE2\x96\x81 b", "<start_of_image>[multimodal]"}) {
    for (const ControlText control : {ControlText::Literal, ControlText::Parse}) {
      EXPECT_EQ(from_json->encode(text, control), (*from_arrays)->encode(text, control)) << text;
    }
  }
  EXPECT_EQ(from_json->encode("the<eos>", ControlText::Parse), (Ids{298, 1}));
}

TEST(Tokenizer, KeepsNothingOfTheArrays) {
  Result<std::unique_ptr<Tokenizer>> made = fail(ErrorCode::BadFile, "");
  {
    ToyArrays toy_arrays;
    made = toy_arrays.make();
    std::for_each(toy_arrays.pieces.begin(), toy_arrays.pieces.end(),
                  [](std::string& piece) { piece.assign(piece.size(), '#'); });
  }
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ((*made)->decode(std::vector<TokenId>{299, 12, 10}), " the  \n");
}

TEST(Tokenizer, CorrectsTypesOfControlPieces) {  // T2, spec 1.5
  auto made = ToyArrays().make();
  ASSERT_TRUE(made.has_value());
  for (const TokenId id : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 318, 319})
    EXPECT_EQ((*made)->type(id), TokenType::Control) << id;
  EXPECT_EQ((*made)->type(13), TokenType::UserDefined);
  EXPECT_EQ((*made)->type(14), TokenType::Byte);
}

TEST(Tokenizer, LeavesControlTokensOutOfTextUnlessAsked) {
  const auto tokenizer = testing::tokenizer_from(testing::toy_json());
  const Ids ids = {2, 298, 9, 269, 320};
  EXPECT_EQ(tokenizer->decode(ids), "the\uFFFD");
  EXPECT_EQ(tokenizer->decode(ids, true), "<bos>the<end_of_turn>\uFFFD<image_soft_token>");
}

TEST(Tokenizer, AnswersForIdsOutsideTheVocabulary) {
  const auto tokenizer = testing::tokenizer_from(testing::toy_json());
  for (const TokenId id : {-1, 321, 2147483647}) {
    EXPECT_EQ(tokenizer->bytes(id), "");
    EXPECT_EQ(tokenizer->type(id), TokenType::Unused);
    EXPECT_TRUE(tokenizer->is_control(id));
  }
}

TEST(Tokenizer, ReadsBothSpellingsOfMerges) {
  json file = toy();
  const auto pairs = testing::tokenizer_from(file.dump());
  for (json& merge : file["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const auto joined = testing::tokenizer_from(file.dump());
  const std::string_view text = "the string and the other thing";
  EXPECT_EQ(pairs->encode(text, ControlText::Literal), joined->encode(text, ControlText::Literal));
}

TEST(Tokenizer, AcceptsATabWrittenForItsBytePiece) {
  ToyArrays toy_arrays;
  toy_arrays.pieces[14 + 9] = std::string("\t");
  auto made = toy_arrays.make();
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ((*made)->encode("\t", ControlText::Literal), Ids{14 + 9});
}

TEST(Tokenizer, RefusesArraysThatContradictThemselves) {
  const auto refusal = [](void (*spoil)(ToyArrays&)) {
    ToyArrays toy_arrays;
    spoil(toy_arrays);
    auto made = toy_arrays.make();
    EXPECT_FALSE(made.has_value());
    if (made) return std::string();
    EXPECT_EQ(made.error().code, ErrorCode::BadFile);
    return made.error().message;
  };
  EXPECT_EQ(refusal([](ToyArrays& t) { t.arrays.scores.pop_back(); }),
            "the vocabulary has 320 pieces, 319 scores and 320 types; accepted are as many of each");
  EXPECT_EQ(refusal([](ToyArrays& t) { t.arrays.types[300] = 7; }), "token 300 has type 7; accepted are 1 to 6");
  EXPECT_EQ(refusal([](ToyArrays& t) { t.arrays.scores[300] = NAN; }), "the score of token 300 is not a number");
  EXPECT_EQ(refusal([](ToyArrays& t) { t.pieces[300] = std::string("a"); }), "tokens 271 and 300 have the same piece");
  EXPECT_EQ(refusal([](ToyArrays& t) { t.arrays.types[20] = 1; }),
            "the vocabulary has no piece <0x06>; all 256 byte pieces are needed");
  EXPECT_EQ(refusal([](ToyArrays& t) { t.pieces[20] = std::string("<0x07>"); }),
            "tokens 20 and 21 both stand for byte 0x07");
  EXPECT_EQ(refusal([](ToyArrays& t) { t.pieces[20] = std::string("<0xzz>"); }),
            "token 20 is of type byte but is not spelled <0x00> to <0xFF>");
  EXPECT_EQ(refusal([](ToyArrays& t) { t.pieces[300].assign(70000, 'a'); }),
            "a piece of the vocabulary has 70000 bytes; accepted are at most 65535");
  auto empty = Tokenizer::from_arrays({});
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().message, "the vocabulary has 0 tokens; accepted are 1 to 16777216");
}

TEST(Tokenizer, RefusesTokenizerJsonThatIsNotGemmas) {
  const auto refusal = [](void (*spoil)(json&)) {
    json file = toy();
    spoil(file);
    auto made = Tokenizer::from_json(file.dump());
    EXPECT_FALSE(made.has_value());
    return made ? std::string() : made.error().message;
  };
  const auto begins = [](const std::string& message, std::string_view start) {
    EXPECT_TRUE(message.starts_with(start)) << message;
  };
  begins(refusal([](json& f) { f["model"]["type"] = "Unigram"; }),
         "tokenizer.json: the model is \"Unigram\"; accepted is");
  begins(refusal([](json& f) { f.erase("model"); }), "tokenizer.json: the model is \"\"");
  begins(refusal([](json& f) { f["model"]["byte_fallback"] = false; }),
         "tokenizer.json: the model has no byte fallback");
  begins(refusal([](json& f) { f["normalizer"]["content"] = "_"; }), "tokenizer.json: the normalizer is \"Replace\"");
  begins(refusal([](json& f) { f["added_tokens"][3]["lstrip"] = true; }),
         "tokenizer.json: added token 3 has \"lstrip\"");
  begins(refusal([](json& f) { f["added_tokens"][3].erase("id"); }), "tokenizer.json: added token 3 lacks");
  begins(refusal([](json& f) { f["added_tokens"][3]["id"] = 4; }), "tokenizer.json: id 4 is");
  begins(refusal([](json& f) { f["model"]["vocab"]["zz"] = 5; }), "tokenizer.json: id 5 is given twice");
  begins(refusal([](json& f) { f["model"]["vocab"]["zz"] = 500; }), "tokenizer.json: the largest id is 500");
  begins(refusal([](json& f) { f["model"]["vocab"]["zz"] = -1; }), "tokenizer.json: the id of piece");
  begins(refusal([](json& f) { f["model"]["vocab"].erase("q"); }), "tokenizer.json: id 287 has no piece");
  begins(refusal([](json& f) { f["model"]["merges"][0] = {"t", "h", "e"}; }), "tokenizer.json: merge 0 has 3 pieces");
  begins(refusal([](json& f) { f["model"]["merges"][0] = "th"; }), "tokenizer.json: merge 0 does not have one space");
  begins(refusal([](json& f) { f["model"]["merges"][0] = 7; }), "tokenizer.json: merge 0 is a number");
  begins(refusal([](json& f) {
           f["model"]["merges"][0] = {"q", "z"};
         }),
         "tokenizer.json: merge 0 (\"q\", \"z\") uses pieces");
  begins(refusal([](json& f) {
           f["model"]["merges"].push_back({"t", "h"});
         }),
         "tokenizer.json: merge 21 (\"t\", \"h\") is out");
  begins(refusal([](json& f) { f["model"]["vocab"]["he"] = 321; }),
         "tokenizer.json: token 298 has 1 merges; accepted is");
}

TEST(Tokenizer, RefusesTextThatIsNotTokenizerJson) {
  const std::string good = testing::toy_json();
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("7"), std::string("null"), std::string("{}"),
        std::string(100000, '['), "{\"a\":" + std::string(100000, '['), good.substr(0, good.size() / 2), good + "x"}) {
    auto made = Tokenizer::from_json(text);
    ASSERT_FALSE(made.has_value()) << text.substr(0, 20);
    EXPECT_TRUE(made.error().message.starts_with("tokenizer.json: ")) << made.error().message;
  }
}

}  // namespace
}  // namespace ebb::tokenizer
