// Reads the reference tensors that tests compare with (safetensors files whose types a model file never has, such as
// float64). For tests only: trusts the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace ebb::tests {

class ExpectedTensors {
 public:
  explicit ExpectedTensors(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot open " + path.string());
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes_.data(), sizeof header_bytes);
    header_ = nlohmann::json::parse(bytes_.substr(sizeof header_bytes, header_bytes));
    data_begin_ = sizeof header_bytes + header_bytes;
  }

  [[nodiscard]] bool has(const std::string& name) const { return header_.contains(name); }
  [[nodiscard]] std::vector<std::size_t> shape(const std::string& name) const { return header_.at(name).at("shape"); }

  /// Values of a tensor whose stored type is T.
  template <typename T>
  [[nodiscard]] std::vector<T> values(const std::string& name) const {
    const std::vector<std::size_t> range = header_.at(name).at("data_offsets");
    std::vector<T> result((range[1] - range[0]) / sizeof(T));
    std::memcpy(result.data(), bytes_.data() + data_begin_ + range[0], range[1] - range[0]);
    return result;
  }

 private:
  std::string bytes_;
  nlohmann::json header_;
  std::size_t data_begin_ = 0;
};

}  // namespace ebb::tests
