#include "weft/io/text/jsonl.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"
#include "weft/io/scratch_folder_test.h"

namespace weft {
namespace {

TEST(Jsonl, EveryLineComesWithItsPlace) {
  const ScratchFolder folder;
  const std::string path = folder.write("x.jsonl", "{\"id\": 1}\n\n  {\"id\": 2}\r\n{\"id\": 3}");
  std::vector<std::string> seen;
  for_each_line(path, [&](const Json& object, const std::string& where) {
    seen.push_back(where.substr(path.size()) + " " + std::to_string(get_int(object, "id", where)));
  });
  EXPECT_EQ(seen, (std::vector<std::string>{" line 1 1", " line 3 2", " line 4 3"}));
}

TEST(Jsonl, TheTasksOfTheBundledModelAreRead) {
  int items = 0;
  for_each_line(WEFT_SOURCE "/models/weft-16/tasks.jsonl", [&](const Json& object, const std::string& where) {
    EXPECT_FALSE(get_string(object, "context", where).empty());
    ++items;
  });
  EXPECT_EQ(items, 10400);
}

TEST(Jsonl, WrongLinesAreRefusedNamingFileAndLine) {
  const ScratchFolder folder;
  const auto said = [&](const std::string& text, const JsonlLimits& limits = {}) {
    const std::string path = folder.write("x.jsonl", text);
    const std::string message = refusal([&] {
      for_each_line(
          path, [](const Json&, const std::string&) {}, limits);
    });
    return message.rfind(path, 0) == 0 ? message.substr(path.size()) : "(no path) " + message;
  };
  EXPECT_EQ(said("{}\n[1]\n"), " line 2: no JSON object; give one {...} a line");
  EXPECT_EQ(said("{}\n{\"a\": }\n").find(" line 2: not JSON at line 1, column 7"), 0u);
  EXPECT_EQ(said("{\"abc\": 1}", {.line = {.bytes = 4}}), " line 1: 10 bytes of JSON; at most 4 are read");
  EXPECT_EQ(said("{}\n{}\n{}", {.lines = 2}), ": more than 2 lines; split the file");
  EXPECT_NE(said("{\"a\": \"\xff\"}"), "did not throw");
}

TEST(Jsonl, MutantsAreTakenOrRefused) {
  const ScratchFolder folder;
  const std::string original =
      "{\"id\": 1, \"task\": \"last_word\", \"context\": \"a b\", \"target\": \" c\"}\n{\"id\": 2, \"choices\": "
      "[\"a\", \"b\"], \"answer\": 1}\n";
  const FuzzCounts counts = fuzz(original, 3000, [&](const std::string& mutant) {
    for_each_line(folder.write("x", mutant), [](const Json&, const std::string&) {});
  });
  EXPECT_GT(counts.taken, 100);
  EXPECT_GT(counts.refused, 1000);
}

}  // namespace
}  // namespace weft
