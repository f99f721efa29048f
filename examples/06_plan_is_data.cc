// A plan is data: it is built without touching any memory, printed, proved, saved and read back, and what was read back
// runs. Here the ranks are threads of this process.
//
//   06_plan_is_data
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "weft/collective/build.h"
#include "weft/plan/text/print.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"
#include "weft/weft.h"

namespace {

constexpr int kRanks = 3;
constexpr std::int64_t kM = 48, kN = 40, kK = 16;

void use(weft::World& world, const weft::Plan& plan) {
  const weft::Mesh mesh = world.mesh({{"tp", kRanks}});
  weft::Op op = world.compile(plan, mesh, "tp");
  const std::vector<float> x(kM * kK, static_cast<float>(world.rank() + 1)), w(kK * kN, 0.5f);
  op.run(x.data(), w.data());
  for (const float y : op.output().values())
    if (y != kK * 0.5f * (1 + 2 + 3)) weft::fail(weft::Code::internal, "rank {} got {}", world.rank(), y);
}

int run() {
  const weft::Mesh mesh({{"tp", kRanks}});
  const weft::Plan plan =
      weft::build(weft::gemm({.m = kM, .n = kN, .k = kK, .tile = {8, 8}}), weft::all_reduce(mesh, "tp"));
  std::printf("%s\n", weft::print(plan).c_str());

  const weft::Verdict verdict = weft::verify(plan);  // what compile() would do, too
  if (!verdict.ok()) return std::fprintf(stderr, "refused: %s\n", verdict.problems.front().c_str()), 1;

  const std::string path = "/tmp/weft_plan_" + std::to_string(getpid()) + ".json";
  weft::save_plan(plan, path);
  const weft::Plan loaded = weft::load_plan(path);
  std::remove(path.c_str());
  if (weft::to_json(loaded) != weft::to_json(plan)) return std::fprintf(stderr, "the plan changed on its way\n"), 1;

  // A plan that waits for a signal nobody sends is refused, and says why.
  weft::Plan broken = loaded;
  for (weft::Rule& rule : broken.rules) rule.signals.clear();
  const weft::Verdict refused = weft::verify(broken);
  if (refused.ok()) return std::fprintf(stderr, "a plan without signals was accepted\n"), 1;
  std::printf("without its signals: %s\n", refused.problems.front().c_str());

  weft::World::local(kRanks, [&](weft::World& world) { use(world, loaded); });
  std::printf("ok %d thread ranks ran a plan that was saved and loaded, %ld tiles\n", kRanks,
              static_cast<long>(verdict.tiles));
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
