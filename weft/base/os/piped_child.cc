#include "weft/base/os/piped_child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/os/argv.h"

namespace weft {
namespace {

constexpr auto kGrace = std::chrono::seconds(2);  // from the end of its input until it is killed
constexpr auto kLook = std::chrono::milliseconds(5);

// Ours and the child's. A socket, because a write to it can be told not to raise SIGPIPE.
std::array<Fd, 2> ends(const std::string& name) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    fail(Code::io, "cannot make a pipe to \"{}\": {}", name, std::strerror(errno));
  return {Fd(pair[0]), Fd(pair[1])};
}

pid_t spawn(const std::vector<std::string>& words, int input, int output) {
  std::vector<std::string> strings = words;
  const std::vector<char*> argv = argv_of(strings);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(Code::io, "cannot start \"{}\": {}", words[0], std::strerror(error));
  return pid;
}

}  // namespace

PipedChild::PipedChild(const std::vector<std::string>& words) : name_(words.at(0)), lines_(-1) {
  auto [to, its_input] = ends(name_);
  auto [from, its_output] = ends(name_);
  pid_ = spawn(words, its_input.get(), its_output.get());
  to_ = std::move(to), from_ = std::move(from);
  lines_ = LineInput(from_.get());
}

PipedChild::~PipedChild() {
  to_ = Fd();
  const auto end = std::chrono::steady_clock::now() + kGrace;
  while (waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      return;
    }
    std::this_thread::sleep_for(kLook);
  }
}

void PipedChild::write(const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t sent = send(to_.get(), text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) fail(Code::io, "\"{}\" takes no more input: {}", name_, std::strerror(errno));
    done += num(sent);
  }
}

std::string PipedChild::read(std::chrono::milliseconds patience) {
  std::string line;
  const auto end = std::chrono::steady_clock::now() + patience;
  for (auto left = patience; left.count() > 0;
       left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now())) {
    const LineInput::News news = lines_.wait(left, &line);
    if (news == LineInput::News::line) return line;
    if (news == LineInput::News::end) fail(Code::io, "\"{}\" has ended", name_);
  }
  fail(Code::deadline, "\"{}\" said nothing for {:.1f} s", name_, std::chrono::duration<double>(patience).count());
}

}  // namespace weft
