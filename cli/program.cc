// The weft program without its main(): picks the command, and turns whatever goes wrong into one sentence and an exit
// code.
//   0  done        1  failure        2  bad input, or more memory than there is: the sentence names value and remedy
#include "cli/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/os/new_file.h"
#include "weft/kernel/isa.h"
#include "weft/transport/join/launch.h"
#include "weft/transport/local/shm.h"
#include "weft/world/trace.h"

#include "cli/command.h"
#include "cli/flag_values.h"
#include "cli/ranks.h"

namespace weft::cli {
namespace {

int exit_code(Code code) { return code == Code::bad_input || code == Code::no_memory ? 2 : 1; }

// A rank leaves its sentence with its launcher, which says one of them, whichever rank ended first.
int complain(std::string_view sentence, int code) {
  if (!leave_words(sentence)) say(sentence);
  return code;
}

// Where standard input, output or error are closed, the next file that is opened would take their place, and be printed
// into. What stands in cannot be written to (or read), so that using it is an error all the same.
void keep_standard_descriptors() {
  for (const int fd : {0, 1, 2})
    if (::fcntl(fd, F_GETFD) < 0) static_cast<void>(::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY));
}

// A write that fails in the middle of a report would throw out of a rank whose peers are still at work, and they would
// tell of their part in it. So a report is kept whole, and written when the ranks have parted; what must be seen at
// once is flushed where it is printed.
void keep_reports_whole() {
  constexpr std::size_t kLargestReport = std::size_t{1} << 20;
  if (::isatty(1) == 0) std::setvbuf(stdout, nullptr, _IOFBF, kLargestReport);
}

// What was printed and could not be written, as on a full disk, is a failure: so is a timeline that was asked for.
int with_output(int code) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (code != 0) return code;
  if (!written)
    return complain(fmt::format("standard output cannot be written: {}", std::strerror(errno != 0 ? errno : EIO)), 1);
  const std::string lost = lost_trace();
  return lost.empty() ? 0 : complain(lost, 1);
}

// The flight recorder of a rank whose run failed: its last events here, all of them in the file FLIGHT.RANK where
// WEFT_FLIGHT names one.
void print_record(const Error& error) {
  constexpr std::size_t kLines = 8;
  const std::string& record = error.record();
  if (record.empty()) return;
  const int rank = launched() ? launched_rank() : 0;
  std::size_t from = record.size() - 1;
  for (std::size_t lines = 0; lines < kLines && from != std::string::npos && from > 0; ++lines)
    from = record.rfind('\n', from - 1);
  const std::string last = record.substr(from == std::string::npos || from == 0 ? 0 : from + 1);
  say(fmt::format("rank {}, what it did last:\n{}", rank, last.substr(0, last.find_last_not_of('\n') + 1)));
  const char* file = std::getenv("WEFT_FLIGHT");
  if (file == nullptr || *file == '\0' || std::string_view(file) == "0") return;
  const std::string path = fmt::format("{}.{}", file, rank);
  try {
    write_file(path, record);
  } catch (const Error& error) {
    say(error.what());
  }
}

// The command the words on the command line begin with, for the hint at the end of the sentence.
std::string chosen(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? "weft" : "weft " + commands.front()->get_name();
}

// "Could not convert: --m = abc" and its like, in our words.
std::string reworded(const CLI::App& app, const CLI::ParseError& error, const char* first_word) {
  std::string sentence = error.what();
  constexpr std::string_view kConversion = "Could not convert: ";
  if (sentence.starts_with(kConversion)) return sentence.substr(kConversion.size()) + " is no value that it can take";
  if (app.get_subcommands().empty() && first_word != nullptr && first_word[0] == '-')
    return fmt::format("unknown option \"{}\"; a command comes first", first_word);
  if (app.get_subcommands().empty() && first_word != nullptr) {
    std::string names;
    for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
      names += (names.empty() ? "" : ", ") + command->get_name();
    return fmt::format("unknown command \"{}\"; use one of {}", first_word, names);
  }
  return sentence;
}

int bad_words(const CLI::App& app, const CLI::ParseError& error, const char* first_word) {
  std::string sentence = reworded(app, error, first_word);
  for (char& c : sentence)
    if (c == '\n') c = ' ';
  while (!sentence.empty() && (sentence.back() == ' ' || sentence.back() == '.')) sentence.pop_back();
  return complain(fmt::format("{}; see `{} --help`", sentence, chosen(app)), 2);
}

// What the words ask for, and an exit code.
int parse_and_run(int argc, char** argv) {
  CLI::App app("Weft hides the communication of distributed ML behind its computation.", "weft");
  app.set_version_flag("--version", std::string("weft ") + WEFT_VERSION);
  app.require_subcommand(1);
  app.footer("Example:\n  weft ledger\n  weft COMMAND --help");
  set_log(say);
  Run run;
  add_ledger(app, &run);
  add_demo(app, &run);
  add_draw(app, &run);
  add_bench(app, &run);
  add_plan(app, &run);
  add_run(app, &run);
  add_reshard(app, &run);
  add_cluster(app, &run);
  add_generate(app, &run);
  add_chat(app, &run);
  add_serve(app, &run);
  add_tokenize(app, &run);
  add_eval(app, &run);
  add_quantize(app, &run);
  add_spd(app, &run);
  add_schedule(app, &run);
  add_train(app, &run);
  add_sim(app, &run);
  add_info(app, &run);
  refuse_empty_values(app);
  try {
    app.parse(argc, argv);
    best_isa();  // refuses a WEFT_ISA that this machine cannot serve, whatever the command
    return run();
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return bad_words(app, error, argc > 1 ? argv[1] : nullptr);
  } catch (const Error& error) {
    print_record(error);
    return speaks_of(error) ? complain(error.what(), exit_code(error.code())) : exit_code(error.code());
  } catch (const std::bad_alloc&) {
    return complain("not enough memory; use smaller shapes or fewer ranks", 2);
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return complain(fmt::format("standard output: {}", error.what()), 1);
    return complain(error.what(), 1);
  }
}

}  // namespace

void say(std::string_view line) { std::fputs(fmt::format("weft: {}\n", line).c_str(), stderr); }

int program(int argc, char** argv) {
  keep_standard_descriptors();
  keep_reports_whole();
  std::signal(SIGXFSZ, SIG_IGN);  // a file past the limit on sizes (ulimit -f) is refused as one on a full disk is
  return with_output(parse_and_run(argc, argv));
}

}  // namespace weft::cli
