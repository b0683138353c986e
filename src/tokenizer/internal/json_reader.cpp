#include "tokenizer/internal/json_reader.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "tokenizer/internal/vocabulary.h"

namespace ebb::tokenizer {

namespace {

using nlohmann::json;

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxJsonBytes = std::size_t{1} << 30;  // offsets into the collected text stay in 32 bits

/// Where in the file an event happens.
enum class Place {
  Root,
  AddedTokens,
  AddedToken,
  Normalizer,
  NormalizerPattern,
  Model,
  Vocab,
  Merges,
  MergePair,
  Skipped
};

/// Receives nlohmann's parse events; a false return ends the parse with `error_` set.
class Reader final : public json::json_sax_t {
 public:
  bool null() override { return value("null"); }
  bool boolean(bool on) override {
    if (place() == Place::AddedToken) {
      if (key_ == "special") added_.is_special = on;
      if ((key_ == "lstrip" || key_ == "rstrip" || key_ == "single_word") && on) {
        return refuse(fmt::format("added token {} has \"{}\": true; accepted is false", made_.added.size(), key_));
      }
    }
    if (place() == Place::Model && key_ == "byte_fallback") has_byte_fallback_ = on;
    return value(on ? "true" : "false");
  }
  bool number_integer(number_integer_t) override { return value("a negative number"); }
  bool number_unsigned(number_unsigned_t number) override {
    if (place() == Place::Vocab || (place() == Place::AddedToken && key_ == "id")) {
      if (number > std::numeric_limits<std::int32_t>::max()) return bad(fmt::format("id {} is too large", number));
      const auto id = static_cast<std::uint32_t>(number);
      if (place() == Place::AddedToken) {
        added_.id = id;
        has_added_id_ = true;
        return true;
      }
      made_.pieces.push_back({keep(key_), id});
      return true;
    }
    return value("a number");
  }
  bool number_float(number_float_t, const string_t&) override { return value("a fraction"); }
  bool binary(binary_t&) override { return bad("binary data"); }

  bool string(string_t& text) override {
    switch (place()) {
      case Place::AddedToken:
        if (key_ == "content") added_.text = keep(text);
        return true;
      case Place::Normalizer:
        if (key_ == "type") normalizer_type_ = text;
        if (key_ == "content") normalizer_content_ = text;
        return true;
      case Place::NormalizerPattern:
        if (key_ == "String") normalizer_pattern_ = text;
        return true;
      case Place::Model:
        if (key_ == "type") model_type_ = text;
        return true;
      case Place::Merges:
        return joined_merge(text);
      case Place::MergePair:
        if (pair_size_ < 2) pair_[pair_size_] = keep(text);
        ++pair_size_;
        return true;
      default:
        return value("a string");
    }
  }

  bool key(string_t& name) override {
    std::swap(key_, name);
    return true;
  }

  bool start_object(std::size_t) override {
    const Place at = place();
    if (places_.empty()) return enter(Place::Root);
    if (at == Place::Root && key_ == "model") return enter(Place::Model);
    if (at == Place::Root && key_ == "normalizer") return enter(Place::Normalizer);
    if (at == Place::Normalizer && key_ == "pattern") return enter(Place::NormalizerPattern);
    if (at == Place::Model && key_ == "vocab") return enter(Place::Vocab);
    if (at == Place::AddedTokens) {
      added_ = {};
      has_added_id_ = false;
      return enter(Place::AddedToken);
    }
    return value("an object") && enter(Place::Skipped);
  }
  bool end_object() override {
    if (place() == Place::AddedToken) {
      if (!has_added_id_ || added_.text.size == 0) {
        return bad(fmt::format("added token {} lacks \"id\" or \"content\"", made_.added.size()));
      }
      made_.added.push_back(added_);
    }
    places_.pop_back();
    return true;
  }

  bool start_array(std::size_t) override {
    const Place at = place();
    if (places_.empty()) return bad("the file is an array; accepted is an object");
    if (at == Place::Root && key_ == "added_tokens") return enter(Place::AddedTokens);
    if (at == Place::Model && key_ == "merges") return enter(Place::Merges);
    if (at == Place::Merges) {
      pair_size_ = 0;
      return enter(Place::MergePair);
    }
    return value("an array") && enter(Place::Skipped);
  }
  bool end_array() override {
    if (place() == Place::MergePair) {
      if (pair_size_ != 2) {
        return bad(fmt::format("merge {} has {} pieces; accepted are 2", made_.merges.size(), pair_size_));
      }
      made_.merges.push_back({pair_[0], pair_[1]});
    }
    places_.pop_back();
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return bad(fmt::format("not JSON at byte {}", position));
  }

  Result<JsonVocabulary> finish() {
    if (error_) return tl::unexpected<Error>(*std::move(error_));
    if (model_type_ != "BPE") {
      return fail(ErrorCode::Unsupported,
                  fmt::format("tokenizer.json: the model is \"{}\"; accepted is \"BPE\"", model_type_));
    }
    if (!has_byte_fallback_) {
      return fail(ErrorCode::Unsupported,
                  "tokenizer.json: the model has no byte fallback; accepted is \"byte_fallback\": true");
    }
    if (normalizer_type_ != "Replace" || normalizer_pattern_ != " " || normalizer_content_ != kEscapedSpace) {
      return fail(ErrorCode::Unsupported,
                  fmt::format("tokenizer.json: the normalizer is \"{}\" of \"{}\" by \"{}\"; accepted is Replace of a "
                              "space by U+2581",
                              normalizer_type_, normalizer_pattern_, normalizer_content_));
    }
    return std::move(made_);
  }

 private:
  [[nodiscard]] Place place() const { return places_.empty() ? Place::Skipped : places_.back(); }

  bool enter(Place next) {
    if (places_.size() == kMaxDepth) return bad(fmt::format("nested deeper than {}", kMaxDepth));
    places_.push_back(next);
    return true;
  }

  /// A value of a kind that no reader above has taken: wrong inside the lists we read, ignored elsewhere.
  bool value(std::string_view kind) {
    if (places_.empty()) return bad(fmt::format("the file is {}; accepted is an object", kind));
    switch (place()) {
      case Place::Vocab:
        return bad(fmt::format("the id of piece {} is {}; accepted is a number", made_.pieces.size(), kind));
      case Place::Merges:
        return bad(fmt::format("merge {} is {}", made_.merges.size(), kind));
      case Place::MergePair:
        return bad(fmt::format("merge {} holds {}; accepted are strings", made_.merges.size(), kind));
      case Place::AddedTokens:
        return bad(fmt::format("added token {} is {}", made_.added.size(), kind));
      default:
        return true;
    }
  }

  bool joined_merge(std::string_view text) {
    const std::size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) {
      return bad(fmt::format("merge {} does not have one space between its two pieces", made_.merges.size()));
    }
    made_.merges.push_back({keep(text.substr(0, space)), keep(text.substr(space + 1))});
    return true;
  }

  JsonVocabulary::Text keep(std::string_view text) {
    const auto begin = static_cast<std::uint32_t>(made_.bytes.size());
    made_.bytes += text;
    return {begin, static_cast<std::uint32_t>(text.size())};
  }

  bool bad(const std::string& what) {
    if (!error_) error_ = Error{ErrorCode::BadFile, "tokenizer.json: " + what};
    return false;
  }
  bool refuse(const std::string& what) {
    if (!error_) error_ = Error{ErrorCode::Unsupported, "tokenizer.json: " + what};
    return false;
  }

  JsonVocabulary made_;
  std::optional<Error> error_;
  std::vector<Place> places_;
  std::string key_;
  JsonVocabulary::Added added_;
  bool has_added_id_ = false;
  JsonVocabulary::Text pair_[2];
  std::size_t pair_size_ = 0;
  std::string model_type_, normalizer_type_, normalizer_pattern_, normalizer_content_;
  bool has_byte_fallback_ = false;
};

}  // namespace

Result<JsonVocabulary> read_tokenizer_json(std::string_view json_text) {
  if (json_text.size() > kMaxJsonBytes) {
    return fail(ErrorCode::BadFile,
                fmt::format("tokenizer.json has {} bytes; accepted are at most {}", json_text.size(), kMaxJsonBytes));
  }
  Reader reader;
  json::sax_parse(json_text.begin(), json_text.end(), &reader);
  return reader.finish();
}

}  // namespace ebb::tokenizer
