// What a window saves: one unmodified sgemm whose rows belong to several owners, written straight to them, against the
// same sgemm into private memory followed by a copy of each owner's rows into the owner's memory. Both are timed in the
// same rounds, in turn, twice each (the second pair is the A/A band); every round checks that the owners hold the
// same bits. The copy is made by the thread that called sgemm, as people write it, and, where the BLAS has more
// threads, once more by as many. Every timing begins with cold caches: more than twice the last level is read before
// it. Owners are thread ranks: their memory is shared memory either way.
//
//   build/bench/window_gain --m 2048 --n 2048 --k 128 --owners 4 --threads 2 --rounds 41 [--busy] [--huge] [--json]
//
// --threads: of the BLAS. --busy: every rank produces at the same time. --huge: the private product lies in huge pages.
#include <cblas.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/base/thread_pool.h"
#include "weft/weft.h"

extern "C" void openblas_set_num_threads(int);

namespace {

constexpr std::size_t kColdBytes = 128 << 20;

struct Options {
  int m = 2048, n = 2048, k = 128, owners = 4, rounds = 41, threads = 1;
  bool busy = false, huge = false, json = false;
};

Options parse(int argc, char** argv) {
  Options o;
  const std::pair<std::string_view, int*> numbers[] = {{"--m", &o.m},           {"--n", &o.n},
                                                       {"--k", &o.k},           {"--owners", &o.owners},
                                                       {"--rounds", &o.rounds}, {"--threads", &o.threads}};
  const std::pair<std::string_view, bool*> switches[] = {{"--busy", &o.busy}, {"--huge", &o.huge}, {"--json", &o.json}};
  for (int i = 1; i < argc; ++i) {
    bool known = false;
    for (const auto& [name, value] : switches)
      if (name == argv[i]) *value = known = true;
    for (const auto& [name, value] : numbers)
      if (name == argv[i] && i + 1 < argc) *value = std::atoi(argv[++i]), known = true;
    if (!known) weft::bad_input("{} is no option; see the top of bench/window_gain.cc", argv[i]);
  }
  if (std::min({o.m, o.n, o.k, o.owners, o.rounds, o.threads}) < 1) weft::bad_input("sizes are 1 or more");
  return o;
}

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(count);
  for (float& value : out) value = uniform(random);
  return out;
}

// Memory of this rank alone, every page touched.
struct Private {
  float* data;
  std::size_t bytes;
  Private(std::size_t count, bool huge) : bytes(count * sizeof(float)) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) weft::fail(weft::Code::no_memory, "no memory for {} bytes", bytes);
    if (huge) madvise(at, bytes, MADV_HUGEPAGE);
    std::memset(at, 0, bytes);
    data = static_cast<float*>(at);
  }
  ~Private() { munmap(data, bytes); }
  Private(const Private&) = delete;
  Private& operator=(const Private&) = delete;
};

class Bench {
 public:
  Bench(weft::World& world, const Options& o)
      : world_(world),
        o_(o),
        op_(world.compile(weft::window({o.m, o.n}), weft::all_to_all(world.mesh({{"tp", o.owners}}), "tp"))),
        window_(world.window(op_)),
        x_(numbers(weft::num(o.m) * o.k, 1 + world.rank())),
        w_(numbers(weft::num(o.k) * o.n, 100 + world.rank())),
        product_(weft::num(o.m) * o.n, o.huge),
        threads_(produces() ? o.threads : 1),
        cold_(world.rank() == 0 ? kColdBytes / 8 : 0, 1) {}

  // Rounds of window, copy, window again, copy again, copy by many threads, sgemm alone; times in us of this rank.
  void run() {
    for (int round = -2; round < o_.rounds; ++round) {
      x_[0] = static_cast<float>(round);
      std::uint64_t bits = 0;
      for (int variant = 0; variant < 5; ++variant) {
        const double us =
            time([&](float* out) { variant == 0 || variant == 2 ? straight(out) : copied(out, variant == 4); });
        const std::uint64_t seen = digest(op_.output());
        if (variant == 0) bits = seen;
        if (seen != bits) weft::fail(weft::Code::internal, "round {}: the owners hold other bits", round);
        if (round >= 0) times[variant].push_back(us);
      }
      const double us = time([&](float*) { straight(product_.data); });
      if (round >= 0) times[5].push_back(us);
    }
  }

  std::vector<double> times[6];

 private:
  bool produces() const { return o_.busy || world_.rank() == 0; }

  template <typename Make>
  double time(Make&& make) {
    float* out = window_.open();
    if (world_.rank() == 0) forget();
    world_.barrier();
    const double start = now_us();
    if (produces()) make(out);
    if (o_.busy) world_.barrier();
    const double us = now_us() - start;
    op_.run();
    op_.output();
    return us;
  }
  // Reads, so that no line is left to be written back.
  void forget() {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < cold_.size(); i += 8) sum += cold_[i];
    sink_ = sum;
  }
  void straight(float* out) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, o_.m, o_.n, o_.k, 1, x_.data(), o_.k, w_.data(), o_.n, 0,
                out, o_.n);
  }
  void copied(float* out, bool by_all_threads) {
    straight(product_.data);
    if (by_all_threads) {
      threads_.run([&](int thread) {
        const std::size_t begin = weft::cut(o_.m, o_.threads, thread) * o_.n,
                          end = weft::cut(o_.m, o_.threads, thread + 1) * o_.n;
        std::memcpy(out + begin, product_.data + begin, (end - begin) * sizeof(float));
      });
      return;
    }
    for (int owner = 0; owner < o_.owners; ++owner) {
      const std::int64_t begin = weft::cut(o_.m, o_.owners, owner) * o_.n,
                         end = weft::cut(o_.m, o_.owners, owner + 1) * o_.n;
      std::memcpy(out + begin, product_.data + begin, weft::num(end - begin) * sizeof(float));
    }
  }
  static std::uint64_t digest(const weft::Matrix& y) {
    std::uint64_t hash = 1469598103934665603u;
    for (const float value : y.values()) {
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      hash = (hash ^ bits) * 1099511628211u;
    }
    return hash;
  }

  weft::World& world_;
  const Options& o_;
  weft::Op op_;
  weft::Window window_;
  std::vector<float> x_, w_;
  Private product_;
  weft::ThreadPool threads_;
  std::vector<std::uint64_t> cold_;
  volatile std::uint64_t sink_ = 0;
};

void report(const Options& o, const Bench& b) {
  const double window = weft::median(b.times[0]), copy = weft::median(b.times[1]), all = weft::median(b.times[4]),
               sgemm = weft::median(b.times[5]);
  const double band =
      std::max(std::abs(weft::median(b.times[2]) / window - 1), std::abs(weft::median(b.times[3]) / copy - 1));
  const double bytes = 4.0 * o.m * o.n;
  if (o.json) {
    fmt::print(
        "{{\"m\": {}, \"n\": {}, \"k\": {}, \"owners\": {}, \"threads\": {}, \"busy\": {}, \"huge\": {}, "
        "\"rounds\": {}, \"sgemm_us\": {:.1f}, \"window_us\": {:.1f}, \"copy_out_us\": {:.1f}, \"copy_by_all_us\": "
        "{:.1f}, "
        "\"gain\": {:.3f}, \"gain_over_all\": {:.3f}, \"aa_band\": {:.3f}}}\n",
        o.m, o.n, o.k, o.owners, o.threads, o.busy, o.huge, o.rounds, sgemm, window, copy, all, copy / window,
        all / window, band);
    return;
  }
  fmt::print("sgemm {} x {} x {} into {} owners, {} BLAS thread{}, {}, {} rounds, bits equal\n\n", o.m, o.n, o.k,
             o.owners, o.threads, o.threads == 1 ? "" : "s", o.busy ? "all ranks at once" : "one rank at a time",
             o.rounds);
  fmt::print("  sgemm alone       {:9.0f} us  into private memory\n", sgemm);
  fmt::print("  sgemm + copy-out  {:9.0f} us  the copy {:.0f} us, {:.1f} GB/s\n", copy, copy - sgemm,
             bytes / (copy - sgemm) * 1e-3);
  if (o.threads > 1)
    fmt::print("  the same          {:9.0f} us  the copy by {} threads {:.0f} us, {:.1f} GB/s\n", all, o.threads,
               all - sgemm, bytes / (all - sgemm) * 1e-3);
  fmt::print("  window            {:9.0f} us  {:.2f} times as fast", window, copy / window);
  if (o.threads > 1) fmt::print("; than with the copy by {} threads {:.2f}", o.threads, all / window);
  fmt::print(" (A/A band {:.1f} %)\n", band * 100);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options o = parse(argc, argv);
    openblas_set_num_threads(o.threads);
    weft::World::local(o.owners, [&](weft::World& world) {
      Bench bench(world, o);
      bench.run();
      if (world.rank() == 0) report(o, bench);
    });
  } catch (const weft::Error& error) {
    fmt::print(stderr, "window_gain: {}\n", error.what());
    return error.code() == weft::Code::bad_input ? 2 : 1;
  }
}
