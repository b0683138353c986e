// The measurements of `ebb bench speed` and their three forms: a table for people, CSV and JSON for programs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/options.h"
#include "engine/engine.h"

namespace ebb::cli {

struct SpeedRow {
  std::string test;  // "prompt 512", "answer 128"
  bool is_answer = false;
  std::size_t tokens = 0;
  std::vector<double> tokens_per_second;  // ascending

  [[nodiscard]] double median() const;
};

struct SpeedReport {
  engine::ModelInfo model;
  std::vector<SpeedRow> rows;
  std::size_t peak_bytes = 0;     // most the process held in memory, mapped weights included
  engine::DecodeCeiling ceiling;  // measured when there are answer rows
};

[[nodiscard]] std::string speed_report(const SpeedReport& report, TableFormat format);

}  // namespace ebb::cli
