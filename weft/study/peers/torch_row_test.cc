// The row of PyTorch, with a stand-in for Python that plays its part of the talk (tools/ledger_torch.py).
#include "weft/study/peers/torch_row.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/world/world.h"

namespace weft {
namespace {

ModelTask two_ranks() {
  ModelTask task;
  task.folder = "a-model";
  task.prompt = {5, 17, 2};
  task.ranks = 2, task.rounds = 1;
  return task;
}

// An environment whose Python is a shell script; it is the one that VENV names while this lives.
class StandIn {
 public:
  explicit StandIn(const std::string& script)
      : folder_(fmt::format("{}weft-torch-row-{}-{}", ::testing::TempDir(), getpid(), made_++)) {
    std::filesystem::create_directories(folder_ + "/lib/python3/site-packages/torch");
    std::filesystem::create_directories(folder_ + "/bin");
    std::ofstream(folder_ + "/bin/python") << "#!/bin/sh\n" << script;
    std::filesystem::permissions(folder_ + "/bin/python", std::filesystem::perms::owner_all);
    setenv("VENV", folder_.c_str(), 1);
  }
  ~StandIn() {
    unsetenv("VENV");
    std::filesystem::remove_all(folder_);
  }

 private:
  static inline int made_ = 0;
  std::string folder_;
};

// $3 is the rank. The prompt's last token comes back as the first one of the text.
constexpr const char* kTalks =
    "read -r word a b token\n"
    "if [ $3 = 0 ]; then echo store 4711; fi\n"
    "read -r join port\n"
    "[ \"$join $port\" = 'join 4711' ] || exit 1\n"
    "echo ready torch 9.9\n"
    "while read -r command; do [ $command = run ] && sleep 0.05; echo token $token; done\n";

struct Seen {
  bool ready = false;
  std::string note;
  LedgerTable table;
};

// Rank 0's, after a round in which its first token should be `token`.
Seen seen(const ModelTask& task, int token) {
  Seen out;
  World::local(2, [&](World& world) {
    CommonClock clock(world);
    TorchRank torch(clock, task, world.rank(), [](const std::string&) {});
    LedgerTable table;
    table.rows = {{.name = "fused", .measured_us = 5}, {.name = kFloor, .measured_us = 4}};
    Rounds rounds(clock, torch.contestants(), {.rounds = 1});
    if (torch.ready()) rounds.run();
    torch.add_row(rounds, token, &table);
    if (world.rank() == 0) out = {torch.ready(), torch.note(), table};
  });
  return out;
}

TEST(TorchRow, IsMeasuredBesideItsOwnFloorAndStandsBeforeTheLedgers) {
  const StandIn python(kTalks);
  const Seen got = seen(two_ranks(), 2);
  EXPECT_TRUE(got.ready);
  ASSERT_EQ(got.table.rows.size(), 3u) << got.note;
  const LedgerRow& row = got.table.rows[1];
  EXPECT_EQ(row.name, kTorchRow);
  EXPECT_GT(*row.measured_us, 50e3);
  EXPECT_NEAR(*row.exposed_us, 50e3, 30e3) << "beyond the same without collectives";
  EXPECT_FALSE(row.predicted_us);
  EXPECT_EQ(got.note.rfind("torch 9.9, float32", 0), 0u) << got.note;
}

TEST(TorchRow, IsLeftOutWithTheReasonWhereItCannotBe) {
  const StandIn python(kTalks);
  const Seen wrong = seen(two_ranks(), 3);
  EXPECT_EQ(wrong.table.rows.size(), 2u) << "a wrong result has no time";
  EXPECT_EQ(wrong.note, "its first token is 2, not 3");
  ModelTask paced = two_ranks();
  paced.link.paced = Link{.bytes_per_s = 1e9};
  EXPECT_EQ(seen(paced, 2).note, "gloo is not slowed down to a paced link; `weft ledger --link shm` measures it");
  {
    const StandIn lacking("[ $3 = 1 ] && echo 'cannot import torch' || echo store 1; read -r a; read -r b\n");
    const Seen none = seen(two_ranks(), 2);
    EXPECT_FALSE(none.ready);
    EXPECT_EQ(none.table.rows.size(), 2u);
    EXPECT_NE(none.note.find("has ended"), std::string::npos) << none.note;
  }
  setenv("VENV", "/nowhere", 1);
  EXPECT_NE(seen(two_ranks(), 2).note.find("`make python` installs it"), std::string::npos);
}

}  // namespace
}  // namespace weft
