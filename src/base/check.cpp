#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ebb {

void check_failed(const char* condition, const char* file, int line, const std::string& values) {
  std::fprintf(stderr, "ebb: internal check failed at %s:%d: %s (%s)\n", file, line, condition, values.c_str());
  std::abort();
}

}  // namespace ebb
