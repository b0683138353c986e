// The whole program behind main(): reads the command line, runs the command, reports the error, returns the exit code.
#pragma once

namespace ebb::cli {

[[nodiscard]] int run_program(int argument_count, char** arguments);

}  // namespace ebb::cli
