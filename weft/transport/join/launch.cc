#include "weft/transport/join/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/os/argv.h"
#include "weft/transport/join/host_identity.h"
#include "weft/transport/join/net_join.h"
#include "weft/transport/join/rendezvous.h"
#include "weft/transport/local/control.h"
#include "weft/transport/local/memory.h"
#include "weft/transport/local/process.h"
#include "weft/transport/local/shm.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kGrace{2};      // from the first failure to SIGTERM
constexpr std::chrono::seconds kTermGrace{1};  // from SIGTERM to SIGKILL

std::atomic<int> interrupt_fd{-1};

void on_interrupt(int) {
  const int saved = errno;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(interrupt_fd.load(), &one, sizeof one);
  errno = saved;
}

// Turns SIGINT and SIGTERM into a readable descriptor while it lives. A handler, because a signalfd would
// need every thread of the process to block them. A signal that was ignored (nohup) stays ignored.
class InterruptWatch {
 public:
  InterruptWatch() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    int none = -1;
    if (!event_ || !interrupt_fd.compare_exchange_strong(none, event_.get()))
      fail(Code::internal, "another launch is under way in this process; start one at a time");
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESTART;
    for (int i = 0; i < 2; ++i) {
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~InterruptWatch() {
    for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &before_[i], nullptr);
    interrupt_fd = -1;
  }
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  int fd() const { return event_.get(); }
  bool take() const {
    std::uint64_t count = 0;
    return read(event_.get(), &count, sizeof count) > 0;
  }

 private:
  static constexpr int kSignals[2] = {SIGINT, SIGTERM};
  Fd event_;
  struct sigaction before_[2]{};
};

constexpr const char* kWordsFdEnv = "WEFT_WORDS_FD";
constexpr std::size_t kMostWords = 4000;  // with the rank in front less than PIPE_BUF: written whole or not at all

// Where ranks leave what they have to say: RANK, a tab, the sentence and a zero. Nobody waits at either end: a pipe
// that is full loses words, of which the first are there.
class WordsPipe {
 public:
  WordsPipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
      fail(Code::io, "cannot make a pipe for what ranks say: {}", std::strerror(errno));
    read_ = Fd(ends[0]), write_ = Fd(ends[1]);
  }

  int write_end() const { return write_.get(); }

  void take(int first_rank, std::vector<std::string>* words) const {
    std::string all;
    char bytes[4096];
    for (ssize_t count = 0; (count = read(read_.get(), bytes, sizeof bytes)) > 0;)
      all.append(bytes, static_cast<std::size_t>(count));
    for (std::size_t begin = 0, end = 0; (end = all.find('\0', begin)) != std::string::npos; begin = end + 1) {
      const std::string one = all.substr(begin, end - begin);
      const std::size_t tab = one.find('\t');
      const int position = std::atoi(one.c_str()) - first_rank;
      if (tab == std::string::npos || position < 0 || position >= int_size(*words)) continue;
      if (std::string& kept = (*words)[num(position)]; kept.empty()) kept = one.substr(tab + 1);
    }
  }

 private:
  Fd read_, write_;
};

// The descriptor of a rank whose launcher listens; -1: none does.
int words_fd() {
  const char* text = std::getenv(kWordsFdEnv);
  if (text == nullptr || !launched()) return -1;
  const int fd = std::atoi(text);
  struct stat status {};
  return fd > 2 && fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode) ? fd : -1;
}

int world_size(const LaunchOptions& options) { return options.world_size > 0 ? options.world_size : options.num_ranks; }

bool is_whole_world(const LaunchOptions& options) { return world_size(options) == options.num_ranks; }

// What a launch is called in a world of several: its ranks share its control block and nobody else's, so that two
// launches on one machine count as two hosts.
std::string host_of_launch() {
  const HostIdentity host = host_identity();
  return fmt::format("{}/{} launch {} {}", host.name, host.id, getpid(), Clock::now().time_since_epoch().count());
}

// What a rank inherits: its end of the rendezvous, and where it leaves its words.
struct RankDescriptors {
  int rendezvous, words;
};

// The environment of one rank: ours, the caller's additions and the variables of join_launch().
std::vector<std::string> rank_environment(const LaunchOptions& options, int position, const RankDescriptors& fds,
                                          const std::string& host) {
  auto added = options.env;
  added.emplace_back(kRankEnv, std::to_string(options.first_rank + position));
  added.emplace_back(kSizeEnv, std::to_string(world_size(options)));
  added.emplace_back(kHereEnv, std::to_string(options.num_ranks));
  added.emplace_back(kRendezvousFdEnv, std::to_string(fds.rendezvous));
  added.emplace_back(kWordsFdEnv, std::to_string(fds.words));
  const bool alone = is_whole_world(options);
  if (!alone) added.insert(added.end(), {{kRendezvousEnv, options.rendezvous}, {kHostEnv, host}});
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view name(*entry, std::strcspn(*entry, "="));
    if (alone && name == kRendezvousEnv) continue;  // that of a world which this launcher may itself be a rank of
    if (std::none_of(added.begin(), added.end(), [&](const auto& one) { return one.first == name; }))
      environment.emplace_back(*entry);
  }
  for (const auto& [name, value] : added) environment.push_back(name + "=" + value);
  return environment;
}

pid_t spawn(const LaunchOptions& options, int position, const RankDescriptors& fds, const std::string& host) {
  auto arguments = options.argv;
  auto environment = rank_environment(options, position, fds, host);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int fd : {fds.rendezvous, fds.words})
    posix_spawn_file_actions_adddup2(&actions, fd, fd);  // clears close-on-exec, for these
  if (position != 0) posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (options.first_rank + position != 0 && options.output == Output::rank_zero)
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, arguments[0].c_str(), &actions, nullptr, argv_of(arguments).data(),
                                 argv_of(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    bad_input("cannot start \"{}\": {}; give the path of a program", options.argv[0], std::strerror(error));
  return pid;
}

class Launch {
 public:
  explicit Launch(const LaunchOptions& options)
      : control_fd_(std::make_shared<const Fd>(make_memfd(Control::bytes_for(world_size(options))))),
        control_(
            Control::create(map_shared(*control_fd_, Control::bytes_for(world_size(options))), world_size(options))),
        hub_(options.num_ranks, control_fd_),
        host_(host_of_launch()) {
    result_.ranks.resize(options.num_ranks);
    result_.words.resize(num(options.num_ranks));
    for (int position = 0; position < options.num_ranks; ++position)
      control_.set_host(options.first_rank + position, host_identity().name);
    result_.first_rank = options.first_rank;
    try {
      for (int position = 0; position < options.num_ranks; ++position) start(options, position);
    } catch (...) {
      kill_all();
      throw;
    }
  }

  LaunchResult run() {
    try {
      while (num_running_ > 0) turn();
    } catch (...) {
      kill_all();
      throw;
    }
    blame();
    words_.take(result_.first_rank, &result_.words);
    return std::move(result_);
  }

 private:
  void start(const LaunchOptions& options, int position) {
    const Fd rank_end = hub_.take_rank_end(position);
    const pid_t pid = spawn(options, position, {rank_end.get(), words_.write_end()}, host_);
    try {
      children_.push_back(open_process(pid));
    } catch (...) {
      kill(pid, SIGKILL);  // not reaped yet, so the number is still its own
      waitpid(pid, nullptr, 0);
      throw;
    }
    ++num_running_;
  }

  // Waits for news, for as long as the next deadline allows, and deals with it.
  void turn() {
    std::vector<pollfd> polls{{interrupts_.fd(), POLLIN, 0}};
    for (const Fd& child : children_) polls.push_back({child.get(), POLLIN, 0});
    hub_.add_polls(polls);
    poll(polls.data(), polls.size(), milliseconds_to_deadline());
    if (interrupts_.take()) {
      if (result_.interrupted) kill_at_ = Clock::now();
      result_.interrupted = true;
      term_at_ = Clock::now();
    }
    // Ends before messages: the reason of a death should stand before what peers say of it.
    for (std::size_t position = 0; position < children_.size(); ++position)
      if (polls[1 + position].revents != 0) reap(static_cast<int>(position));
    hub_.serve();
    stop_in_time();
  }

  int milliseconds_to_deadline() const {
    const auto next = kill_at_ ? kill_at_ : term_at_;
    if (!next || killed_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
    return std::max(0, static_cast<int>(left.count()));
  }

  void stop_in_time() {
    const auto now = Clock::now();
    if (term_at_ && !kill_at_ && now >= *term_at_) {
      signal_all(SIGTERM);
      kill_at_ = now + kTermGrace;
    }
    if (kill_at_ && !killed_ && now >= *kill_at_) {
      signal_all(SIGKILL);
      killed_ = true;
    }
  }

  void signal_all(int signal) const {
    for (int position = 0; position < int_size(children_); ++position) {
      if (!children_[at(position)]) continue;
      signal_process(children_[at(position)], signal);
      // Where the child is a script that runs the rank, the rank must hear it too.
      if (const auto& process = hub_.process(position)) signal_process(*process, signal);
    }
  }

  void kill_all() {
    signal_all(SIGKILL);
    for (const Fd& child : children_) {
      siginfo_t info{};
      if (child) waitid(P_PIDFD, static_cast<id_t>(child.get()), &info, WEXITED);
    }
  }

  void reap(int position) {
    siginfo_t info{};
    if (waitid(P_PIDFD, static_cast<id_t>(children_[position].get()), &info, WEXITED | WNOHANG) != 0 ||
        info.si_pid == 0)
      return;
    children_[position] = {};
    --num_running_;
    const bool exited = info.si_code == CLD_EXITED;
    RankEnd& end = result_.ranks[position];
    end.signal = exited ? 0 : info.si_status;
    end.exit_code = exited ? info.si_status : 128 + info.si_status;
    hub_.serve();  // it may have attached a moment ago
    const int rank = result_.first_rank + position;
    auto& left = control_.rank(rank).left;
    const bool in_order = left.load() != 0 || !hub_.attached(position);
    if (end.exit_code == 0 && in_order) {
      left.store(1);  // a program that never attached: peers that wait for it to do so learn that it will not
      return;
    }
    const auto reason = !exited ? fmt::format("killed by signal {} ({})", end.signal, strsignal(end.signal))
                        : end.exit_code != 0 ? fmt::format("exited with code {}", end.exit_code)
                                             : std::string("exited without leaving its transport");
    control_.report(control_.num_ranks(), rank, reason);
    if (!term_at_) term_at_ = Clock::now() + kGrace;
  }

  void blame() {
    if (const auto failure = control_.first_failure()) {
      result_.first_failed = failure->failed_rank;
      result_.reason = failure->reason;
      if (failure->failed_rank >= 0) result_.host = control_.host(failure->failed_rank);
    }
  }

  std::shared_ptr<const Fd> control_fd_;
  Control control_;
  Hub hub_;
  WordsPipe words_;
  std::string host_;
  InterruptWatch interrupts_;
  std::vector<Fd> children_;  // a pidfd each, empty once reaped
  int num_running_ = 0;
  std::optional<Clock::time_point> term_at_;
  std::optional<Clock::time_point> kill_at_;
  bool killed_ = false;
  LaunchResult result_;
};

}  // namespace

const RankEnd* LaunchResult::first_failed_here() const {
  const int position = first_failed - first_rank;
  return first_failed >= 0 && position >= 0 && position < int_size(ranks) ? &ranks[position] : nullptr;
}

std::string LaunchResult::sentence() const {
  if (first_failed_here() != nullptr && !words[num(first_failed - first_rank)].empty())
    return words[num(first_failed - first_rank)];
  const auto found = std::find_if(words.begin(), words.end(), [](const std::string& one) { return !one.empty(); });
  return found == words.end() ? "" : *found;
}

int LaunchResult::exit_code() const {
  if (const RankEnd* end = first_failed_here()) return end->exit_code == 2 ? 2 : 1;
  if (first_failed >= 0) return 1;
  return interrupted ? 1 : 0;
}

LaunchResult launch(const LaunchOptions& options) {
  if (options.num_ranks < 1 || options.num_ranks > kMaxLocalRanks)
    bad_input("cannot start {} ranks; use 1 to {}", options.num_ranks, kMaxLocalRanks);
  const int last = options.first_rank + options.num_ranks - 1;
  if (world_size(options) > kMaxWorldRanks || options.first_rank < 0 || last >= world_size(options))
    bad_input("ranks {} to {} are not all in a world of {}; use a first rank of 0 to {}, and up to {} ranks in all",
              options.first_rank, last, world_size(options), std::max(0, world_size(options) - options.num_ranks),
              kMaxWorldRanks);
  if (!is_whole_world(options) && options.rendezvous.empty())
    bad_input("{} of {} ranks are started here, but no rendezvous is named where they join the others: give HOST:PORT",
              options.num_ranks, world_size(options));
  if (options.argv.empty()) bad_input("no program to start; use `weft run -n N -- PROG`");
  return Launch(options).run();
}

bool words_are_heard() { return words_fd() >= 0; }

bool leave_words(std::string_view sentence) {
  const int fd = words_fd();
  if (fd < 0) return false;
  std::string text = fmt::format("{}\t{}", launched_rank(), sentence.substr(0, kMostWords));
  text += '\0';
  return write(fd, text.data(), text.size()) == std::ssize(text);
}

}  // namespace weft
