// The commands of the weft program, one file each. A command adds itself with its flags, its help and an example;
// when it is chosen, `run` becomes what it does. main() turns what that throws into a sentence and an exit code.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace weft::cli {

using Run = std::function<int()>;  // returns the exit code

void add_ledger(CLI::App& app, Run* run);
void add_info(CLI::App& app, Run* run);
void add_plan(CLI::App& app, Run* run);
void add_run(CLI::App& app, Run* run);
void add_bench(CLI::App& app, Run* run);
void add_reshard(CLI::App& app, Run* run);
void add_cluster(CLI::App& app, Run* run);
void add_demo(CLI::App& app, Run* run);
void add_draw(CLI::App& app, Run* run);
void add_schedule(CLI::App& app, Run* run);
void add_train(CLI::App& app, Run* run);
void add_sim(CLI::App& app, Run* run);
void add_eval(CLI::App& app, Run* run);
void add_generate(CLI::App& app, Run* run);
void add_quantize(CLI::App& app, Run* run);
void add_spd(CLI::App& app, Run* run);
void add_tokenize(CLI::App& app, Run* run);
void add_chat(CLI::App& app, Run* run);
void add_serve(CLI::App& app, Run* run);

}  // namespace weft::cli
