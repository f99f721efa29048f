// The bodies that process ranks run in the tests, and how a process becomes one.
#include "weft/transport/local/process_ranks_test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/join/launch.h"
#include "weft/transport/join/mpirun.h"
#include "weft/transport/local/local.h"
#include "weft/transport/local/shm.h"
#include "weft/transport/local/wait.h"

namespace weft::transport_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::string note_path(const std::string& name) { return std::string(std::getenv(kFolderEnv)) + "/" + name; }

std::atomic<std::uint32_t>& counter(Segment& segment, int rank) {
  return *reinterpret_cast<std::atomic<std::uint32_t>*>(segment.base[rank]);
}

void wait_for_ever(Transport& transport) {
  wait_until(
      transport, Patience{}, [] { return false; }, [](auto) {});
}

int share_segments() {
  const auto transport = join_launch();
  const int me = transport->rank();
  const int size = transport->size();
  expect(transport->name() == "shm", "the name");
  for (int round = 0; round < 20; ++round) {
    const auto texts = transport->all_gather(std::string(num(me) * 5000, 'a' + me));
    for (int rank = 0; rank < size; ++rank)
      expect(texts[rank] == std::string(num(rank) * 5000, 'a' + rank), "everyone's text");
  }
  const auto segment = transport->allocate(num(me) * 10'000);
  for (int rank = 0; rank < size; ++rank) expect(segment->bytes[rank] == 10'000u * rank, "everyone's size");
  for (std::size_t i = 0; i < segment->bytes[me]; ++i) expect(segment->base[me][i] == std::byte{0}, "zeroed memory");
  transport->barrier();
  for (int rank = 1; rank < size; ++rank) segment->base[rank][9'000 + me] = static_cast<std::byte>(me + 1);
  transport->barrier();
  for (int from = 0; from < size && me != 0; ++from)
    expect(segment->base[me][9'000 + from] == static_cast<std::byte>(from + 1), "everyone's mark");
  return 0;
}

int refuse_memory() {
  const auto transport = join_launch();
  try {
    transport->allocate(transport->rank() == 1 ? std::size_t{1} << 50 : 64);
    return 3;
  } catch (const Error& error) {
    expect(error.code() == Code::no_memory && error.rank() == 1, "no_memory of rank 1");
  }
  return transport->allocate(64)->base.size() == 3 ? 0 : 4;
}

int ring_of_signals() {
  constexpr std::uint32_t kLaps = 300;
  const auto transport = join_launch();
  const auto segment = transport->allocate(64);
  const int me = transport->rank();
  const int right = (me + 1) % transport->size();
  transport->barrier();
  const auto start = Clock::now();
  for (std::uint32_t lap = 1; lap <= kLaps; ++lap) {
    const std::uint32_t awaited = me == 0 ? lap - 1 : lap;
    wait_until(
        *transport, Patience{}, [&] { return counter(*segment, me).load(std::memory_order_seq_cst) >= awaited; },
        [](std::chrono::nanoseconds waited) { expect(waited < 30s, "a signal in time"); });
    transport->publish_progress(lap);
    counter(*segment, right).fetch_add(1, std::memory_order_seq_cst);
    ring_if_asleep(transport->bell(right));
  }
  const std::chrono::duration<double, std::micro> took = Clock::now() - start;
  transport->barrier();
  expect(transport->progress_of(right) == kLaps, "the neighbour's progress");
  if (me == 0) leave_note("us_per_hop", std::to_string(took.count() / kLaps / transport->size()));
  return 0;
}

// Rank 2 says where it is and waits to be killed or stopped; the others wait for it and say what they saw.
int wait_for_the_victim() {
  const auto transport = join_launch();
  const int me = transport->rank();
  transport->barrier();
  if (me == 2) leave_note("victim", std::to_string(getpid()));
  try {
    wait_for_ever(*transport);
  } catch (const Error& error) {
    const auto now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
    expect(error.code() == Code::peer_failed && error.rank() == 2, "rank 2 blamed");
    expect(error.host() == transport->host(2), "its host named");
    leave_note("seen" + std::to_string(me), std::to_string(now));
    return 1;
  }
  return 3;
}

int watch_the_silence() {
  const auto transport = join_launch();
  const int me = transport->rank();
  transport->barrier();
  if (me == 2) leave_note("victim", std::to_string(getpid()));
  const auto stuck = [&](std::chrono::nanoseconds waited) {
    expect(me == 1 || transport->silent_for(1) < 900ms, "a heartbeat of a rank that waits");
    if (me != 2 && transport->silent_for(2) > 1s) throw Error(Code::deadline, "rank 2 is silent", 2);
    expect(waited < 20s, "the silence to be seen");
  };
  try {
    wait_until(
        *transport, Patience{}, [] { return false; }, stuck);
  } catch (const Error& error) {
    if (error.rank() != 2) throw;
    transport->abort(error.what(), 2);
    leave_note("seen" + std::to_string(me), error.what());
    return 1;
  }
  return 3;
}

int throw_in_one() {
  const auto transport = join_launch();
  try {
    transport->barrier();
    if (transport->rank() == 1) bad_input("seven is no colour");
    wait_for_ever(*transport);
  } catch (const Error& error) {
    abort_with_current_exception(*transport);
    if (error.code() == Code::bad_input) std::this_thread::sleep_for(300ms);  // dies after those it warned
    expect(std::string(error.what()).find("seven is no colour") != std::string::npos, "the root cause");
    leave_note("seen" + std::to_string(transport->rank()), error.what());
    return error.code() == Code::bad_input ? 2 : 1;
  }
  return 3;
}

int unwind_in_one() {
  const auto transport = join_launch();
  transport->barrier();
  if (transport->rank() == 1) bad_input("thrown past the transport");
  wait_for_ever(*transport);
  return 3;
}

int exit_without_leaving() {
  auto transport = join_launch();
  transport->barrier();
  if (transport->rank() == 1) _exit(0);
  wait_for_ever(*transport);
  return 3;
}

int never_attach_in_one() {
  if (std::string(std::getenv(kRankEnv)) == "1") return 0;
  join_launch();
  return 3;
}

int leave_early_in_one() {
  const auto transport = join_launch();
  if (transport->rank() != 1) transport->barrier();
  return 0;
}

int ignore_everything() {
  std::signal(SIGTERM, SIG_IGN);
  const auto transport = join_launch();
  const auto segment = transport->allocate(1 << 20);
  transport->barrier();
  leave_note("up" + std::to_string(transport->rank()), std::to_string(getpid()));
  std::this_thread::sleep_for(60s);
  return 3;
}

int launcher() {
  const LaunchResult result = launch(ranks(3, "ignore_everything"));
  leave_note("interrupted", result.interrupted ? "yes" : "no");
  return result.exit_code();
}

int launcher_of_scripts() { return launch(scripts(3, "ignore_everything")).exit_code(); }

// Set-up calls until one fails.
int barriers_for_ever() {
  const auto transport = join_launch();
  const int me = transport->rank();
  transport->barrier();
  leave_note("up" + std::to_string(me), std::to_string(getpid()));
  try {
    while (true) {
      transport->barrier();
      std::this_thread::sleep_for(1ms);
    }
  } catch (const Error& error) {
    leave_note("seen" + std::to_string(me), std::to_string(error.rank()) + " " + error.what());
    return error.code() == Code::peer_failed ? 1 : 3;
  }
}

int leave_early_in_zero() {
  const auto transport = join_launch();
  if (transport->rank() != 0) transport->barrier();
  return 0;
}

int attach_twice() {
  const auto transport = join_launch();
  transport->barrier();
  join_launch();
  return 3;
}

// Beside each rank a twin, that inherits its socket and its number.
int with_a_twin() {
  const bool is_twin = std::getenv("WEFT_TEST_TWIN") != nullptr;
  const std::string rank = std::to_string(launched_rank());
  const char* fd = std::getenv(kRendezvousFdEnv);
  const Environment twin{{"WEFT_TEST_TWIN", "1"}, {kRendezvousFdEnv, fd == nullptr ? "" : fd}};
  try {
    const auto transport = join_launch();
    if (is_twin) return 3;
    fcntl(std::atoi(twin.back().second.c_str()), F_SETFD, 0);  // as between fork and exec in a shell
    leave_note("code" + rank, std::to_string(exit_code_of(start_process(twin))));
    transport->barrier();
    return 0;
  } catch (const Error& error) {
    if (!is_twin) throw;
    leave_note("twin" + rank, error.what());
    return error.code() == Code::bad_input ? 2 : 1;
  }
}

// Ranks that stay until a second process of rank 1 has been refused.
int outlive_a_twin() {
  const auto transport = join_launch();
  const std::string refused = std::string(std::getenv(kFolderEnv)) + "/error1";
  for (int i = 0; i < 2000 && access(refused.c_str(), F_OK) != 0; ++i) std::this_thread::sleep_for(10ms);
  transport->barrier();
  return 0;
}

int die_before_attaching_in_one() {
  if (launched_rank() != 1) {
    join_launch();
    return 3;
  }
  const int next = dup(0);  // its socket may have this number; the control block's descriptor finds none
  close(next);
  const rlimit limit{static_cast<rlim_t>(next) + 1, static_cast<rlim_t>(next) + 1};
  setrlimit(RLIMIT_NOFILE, &limit);
  try {
    join_launch();
  } catch (const Error&) {
    return 5;
  }
  return 3;
}

int words_of_one() {
  if (launched_rank() == 1) {
    expect(leave_words("rank 1 has had enough; give it less"), "that the launcher listens");
    expect(leave_words("and more"), "that it still does");
    return 2;
  }
  std::this_thread::sleep_for(60s);
  return 3;
}

int words_of_all() {
  leave_words(fmt::format("rank {}:{}", launched_rank(), std::string(10'000, 'x')));
  return 2;
}

int mpirun_of_three() {
  for (int rank = 0; rank < 3; ++rank) start_mpirun_rank(rank, 3, "ignore_everything");
  std::this_thread::sleep_for(60s);
  return 3;
}

std::map<std::string, std::function<int()>> own_bodies() {
  return {
      {"share_segments", share_segments},
      {"refuse_memory", refuse_memory},
      {"ring_of_signals", ring_of_signals},
      {"wait_for_the_victim", wait_for_the_victim},
      {"watch_the_silence", watch_the_silence},
      {"throw_in_one", throw_in_one},
      {"unwind_in_one", unwind_in_one},
      {"exit_without_leaving", exit_without_leaving},
      {"never_attach_in_one", never_attach_in_one},
      {"leave_early_in_one", leave_early_in_one},
      {"ignore_everything", ignore_everything},
      {"launcher", launcher},
      {"launcher_of_scripts", launcher_of_scripts},
      {"barriers_for_ever", barriers_for_ever},
      {"leave_early_in_zero", leave_early_in_zero},
      {"attach_twice", attach_twice},
      {"with_a_twin", with_a_twin},
      {"outlive_a_twin", outlive_a_twin},
      {"die_before_attaching_in_one", die_before_attaching_in_one},
      {"mpirun_of_three", mpirun_of_three},
      {"words_of_one", words_of_one},
      {"words_of_all", words_of_all},
  };
}

struct BecomeARank {
  BecomeARank() {
    const char* name = std::getenv(kBodyEnv);
    if (name == nullptr) return;
    auto bodies = own_bodies();
    bodies.merge(net_bodies());
    alarm(60);  // whatever goes wrong, nothing stays
    int code = 99;
    try {
      code = bodies.at(name)();
    } catch (const Error& error) {
      leave_note("error" + std::string(launched() ? std::to_string(launched_rank()) : "L"), error.what());
      code = error.code() == Code::bad_input ? 2 : 1;
    }
    _exit(code);
  }
} become_a_rank;

}  // namespace

void leave_note(const std::string& name, const std::string& text) {
  std::ofstream(note_path(name + ".tmp")) << text;
  std::filesystem::rename(note_path(name + ".tmp"), note_path(name));
}

void expect(bool holds, const char* what) {
  if (!holds) fail(Code::internal, "expected {}", what);
}

LaunchOptions ranks(int num_ranks, const std::string& body) {
  return {.num_ranks = num_ranks, .argv = {"/proc/self/exe"}, .env = {{kBodyEnv, body}}};
}

LaunchOptions scripts(int num_ranks, const std::string& body) {
  LaunchOptions options = ranks(num_ranks, body);
  options.argv = {"sh", "-c", "\"$0\"; exit $?", std::filesystem::read_symlink("/proc/self/exe")};
  return options;
}

Environment mpirun_environment(int rank, int size) {
  return {{kMpiRankEnv, std::to_string(rank)},
          {kMpiSizeEnv, std::to_string(size)},
          {kMpiLocalSizeEnv, std::to_string(size)},
          {kMpiJobEnv, std::getenv(kFolderEnv)}};
}

pid_t start_process(const Environment& environment) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  execl("/proc/self/exe", std::getenv(kBodyEnv), nullptr);
  _exit(127);
}

pid_t start_mpirun_rank(int rank, int size, const std::string& body) {
  Environment environment = mpirun_environment(rank, size);
  environment.emplace_back(kBodyEnv, body);
  return start_process(environment);
}

int exit_code_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void ProcessRanks::SetUp() {
  folder_ = testing::TempDir() + "weft_shm_test_" + std::to_string(getpid());
  std::filesystem::create_directories(folder_);
  setenv(kFolderEnv, folder_.c_str(), 1);
}

void ProcessRanks::TearDown() {
  EXPECT_EQ(processes_left(), 0) << "processes outlive their test";
  EXPECT_EQ(memory_left(), 0) << "shared memory outlives its test";
  std::filesystem::remove_all(folder_);
}

std::string ProcessRanks::note(const std::string& name) const {
  const auto stop = Clock::now() + 20s;
  while (!std::filesystem::exists(folder_ + "/" + name) && Clock::now() < stop) std::this_thread::sleep_for(5ms);
  std::ifstream file(folder_ + "/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool ProcessRanks::has_note(const std::string& name) const { return std::filesystem::exists(folder_ + "/" + name); }

pid_t ProcessRanks::pid_note(const std::string& name) const {
  const std::string text = note(name);
  return text.empty() ? -1 : std::stoi(text);
}

int ProcessRanks::processes_left() const {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename();
    if (pid == std::to_string(getpid()) || pid.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "environ");
    const std::string environment{std::istreambuf_iterator<char>(file), {}};
    if (environment.find(kFolderEnv + ("=" + folder_)) != std::string::npos) ++count;
  }
  return count;
}

int ProcessRanks::memory_left() {
  int count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:weft") != std::string::npos ? 1 : 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    count += target.find("memfd:weft") != std::string::npos ? 1 : 0;
  }
  return count;
}

bool ProcessRanks::all_gone_within(std::chrono::nanoseconds time) const {
  const auto stop = Clock::now() + time;
  while (processes_left() != 0 && Clock::now() < stop) std::this_thread::sleep_for(10ms);
  return processes_left() == 0;
}

pid_t ProcessRanks::start_launcher(const char* body) { return start_process({{kBodyEnv, body}}); }

}  // namespace weft::transport_test
