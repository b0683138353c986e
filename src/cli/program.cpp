#include "cli/program.h"

#include <fmt/format.h>

#include <exception>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/terminal.h"

namespace ebb::cli {

namespace {

Result<int> run_command(Command command, const Options& options) {
  switch (command) {
    case Command::Run:
      return run_once(options);
    case Command::Chat:
      return run_chat(options);
    case Command::Tokenize:
      return run_tokenize(options);
    case Command::Perplexity:
      return run_perplexity(options);
    case Command::BenchSpeed:
      return run_bench_speed(options);
    case Command::Plan:
      return run_plan(options);
    case Command::Memory:
      return run_memory(options);
    case Command::BenchMemory:
      return run_bench_memory(options);
    case Command::Soak:
      return run_soak(options);
    case Command::Doctor:
      return run_doctor(options);
    case Command::ListDevices:
      return run_list_devices(options);
  }
  return kExitWrongUse;
}

Result<int> run_words(const std::vector<std::string>& words) {
  EBB_TRY_ASSIGN(const Invocation invocation, parse_arguments(words, process_environment()));
  if (invocation.version) {
    EBB_TRY(write_output("ebb " EBB_VERSION "\n"));
    return kExitDone;
  }
  if (invocation.options.help) {
    EBB_TRY(write_output(invocation.command ? command_help(*invocation.command) : general_help()));
    return kExitDone;
  }
  return run_command(*invocation.command, invocation.options);
}

}  // namespace

int run_program(int argument_count, char** arguments) {
  install_signal_handlers();
  // Ours never throw across a folder; what still arrives here is the standard library out of memory.
  try {
    const Result<int> code = run_words(std::vector<std::string>(arguments + 1, arguments + argument_count));
    return code ? *code : report(code.error());
  } catch (const std::exception& exception) {
    return report({ErrorCode::OutOfMemory,
                   fmt::format("the system gave no memory ({}); use a smaller -c or model", exception.what())});
  }
}

}  // namespace ebb::cli
