#include "weft/world/world.h"

#include <sys/prctl.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/cluster/find_cluster.h"
#include "weft/collective/build.h"
#include "weft/kernel/isa.h"
#include "weft/plan/price/estimate.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"
#include "weft/transport/join/directory.h"
#include "weft/transport/local/shm.h"
#include "weft/transport/local/threads.h"
#include "weft/transport/wire/wired.h"
#include "weft/world/world_state.h"

namespace weft {
namespace {

int threads_from_env() {
  const char* text = std::getenv("WEFT_THREADS");
  if (text == nullptr) return 1;
  const std::string_view value(text);
  int threads = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), threads);
  if (error != std::errc{} || end != value.data() + value.size() || threads < 1)
    bad_input("WEFT_THREADS is \"{}\"; give a number of threads, 1 or more", value);
  return threads;
}

Cluster cluster_of(const WorldOptions& options) { return options.cluster ? *options.cluster : find_cluster(); }

std::optional<Link> link_of(const WorldOptions& options) {
  if (options.link) return options.link;
  const char* text = std::getenv("WEFT_LINK");
  if (text == nullptr || *text == '\0' || std::string_view(text) == "shm" || parse_wire(text)) return {};
  return parse_link(text);
}

constexpr std::chrono::milliseconds kWireSpin{1};

// Where ranks have less than a core each, they sleep in waits. Between hosts that takes two wake-ups per message, the
// wire's thread and then the rank: an op as small as this is over before. 4 hosts of half a core, reduce_scatter and
// all_to_all of 1 to 16 KB: 290 to 580 us asleep, 225 to 350 when waits offer the core to others and look again.
constexpr std::size_t kSmallOpBytes = 256 << 10;

Patience patience_of(const WorldState& world, std::size_t op_bytes) {
  Patience patience = world.patience;
  if (world.transport->wire() == nullptr || patience.spin.count() > 0 || op_bytes > kSmallOpBytes) return patience;
  patience.spin = kWireSpin;
  patience.yields = true;
  return patience;
}

std::optional<WireKind> wire_of(const WorldOptions& options) {
  return options.wire || options.link ? options.wire : wire_from_env();
}

// Clusters have their ranks in equal blocks, one per host. Where these ranks are not, every pair counts as apart: 1.
int ranks_per_host_of(const Transport& transport) {
  const auto on_first = [&] {
    int ranks = 0;
    while (ranks < transport.size() && transport.host_index(ranks) == 0) ++ranks;
    return ranks;
  }();
  for (int rank = 0; rank < transport.size(); ++rank)
    if (transport.host_index(rank) != rank / on_first) return 1;
  return on_first;
}

// Collective: all ranks of the group have the same plan, and signal in the same way.
Signalling agree(WorldState& world, const std::string& plan, const Group& group) {
  Transport& transport = *world.transport;
  const auto digest = std::to_string(std::hash<std::string>{}(plan));
  // Paced ranks, and ranks that outnumber the cores, sleep often: a fence for each sleep would cost more than it saves.
  const bool able = !world.link && transport.wire() == nullptr && !transport.crowded() && prepare_quiet_signals();
  const auto answers = transport.all_gather(digest + (able ? " quiet" : " fenced"));
  bool quiet = true;
  for (const int rank : group.ranks) quiet = quiet && answers[rank].ends_with(" quiet");
  if (quiet) use_quiet_signals();
  for (const int rank : group.ranks)
    if (answers[rank].substr(0, answers[rank].find(' ')) != digest)
      bad_input("ranks {} and {} compile different plans; give every rank of a group the same arguments",
                transport.rank(), rank);
  return quiet ? Signalling::quiet : Signalling::fenced;
}

// For steps, for epilogues, or as an input buffer, which is the first producer's x.
std::vector<InputsRead> inputs_read(const Plan& plan, const Program& program) {
  std::vector<InputsRead> out(plan.producers.size());
  const auto is_input = [&](const Piece& p) { return plan.buffers[p.buffer].role == Role::input; };
  for (const Action& action : program.actions) {
    if (out.empty()) break;
    const bool is_step = action.kind == ActionKind::step;
    if (is_step || action.finish) out[std::max(action.producer, 0)].any = true;
    if (is_step && action.reads.size() == 0) out[action.producer].x = true;
    for (const auto list : {program.reads(action), program.sources(action)})
      if (std::any_of(list.begin(), list.end(), is_input)) out[0].x = true;
  }
  return out;
}

// Collective: the op's memory on every rank of the group, and where links are paced, that of the signals under way.
void allocate(Op::State& op, const Expander& expander, const Group& group) {
  Transport& transport = *op.world->transport;
  for (int position = 0; position < op.plan.num_ranks; ++position)
    op.memory.layouts.push_back(layout_of(op.plan, expander, position));
  op.segment = transport.allocate(op.memory.layouts[group.position].bytes);
  for (const int rank : group.ranks) {
    op.memory.base.push_back(op.segment->base[rank]);
    op.memory.bells.push_back(&transport.bell(rank));
    op.memory.world_rank.push_back(rank);
  }
  if (op.world->link) op.transits = transport.allocate(Links::bytes_of(expander, group.position, op.plan.num_ranks));
}

CpuOptions cpu_options(const Op::State& op, Signalling signalling) {
  WorldState& world = *op.world;
  CpuOptions options;
  options.patience = patience_of(world, op.memory.layouts[op.rank].bytes);
  options.hooks = world.hooks;
  options.live = &world.live;
  options.signalling = signalling;
  options.detail = world.detail;
  options.segment = op.segment->id;
  options.first_run = world.first_run;
  if (world.link)
    options.pace = {world.link->bytes_per_s, world.link->latency_s, world.ranks_per_host, world.link->fabric};
  return options;
}

}  // namespace

WorldState::WorldState(Transport& transport_in, const WorldOptions& options)
    : transport(&transport_in),
      patience(patience_from_env()),
      hooks(options.hooks),
      prove(options.prove),
      first_run(options.first_run),
      proof_budget(options.proof_budget),
      cluster(cluster_of(options)),
      link(link_of(options)),
      ranks_per_host(options.ranks_per_host) {
  if (ranks_per_host < 1) bad_input("ranks_per_host is {}; use 1 or more", ranks_per_host);
  if (const auto wire = wire_of(options); wire && transport->wire() == nullptr) {
    wired = make_wired(*transport, ranks_per_host, *wire);
    transport = wired.get();
  }
  if (transport->wire() != nullptr) {
    if (link)
      bad_input(
          "a paced link of {} is for ranks of one host, and these ranks have a wire; leave out --link (WEFT_LINK)",
          to_string(*link));
    ranks_per_host = ranks_per_host_of(*transport);
  }
  // Signals under way are due at a moment: sleeps must not be rounded up to the kernel's default of 50 us. Threads made
  // from here on inherit it.
  if (link) prctl(PR_SET_TIMERSLACK, 1UL);
  threads = std::make_unique<ThreadPool>(options.threads > 0 ? options.threads : threads_from_env());
  const char* trace_file = std::getenv("WEFT_TRACE");
  const std::string path = !options.trace.empty() ? options.trace : trace_file != nullptr ? trace_file : "";
  if (!path.empty()) {
    trace.emplace(path, transport->rank(), transport->size());
    transport->barrier();  // what an earlier run left is gone before any rank can end
  }
  const char* flight = std::getenv("WEFT_FLIGHT");
  detail = trace ? Detail::trace : flight != nullptr && std::string_view(flight) == "0" ? Detail::none : Detail::flight;
  // A thread that spins where threads outnumber cores takes time from the one it waits for.
  if (transport->ranks_here() * threads->size() > usable_cores()) patience.spin = std::chrono::nanoseconds(0);
  // Over a wire what is waited for is farther away, and waking up for it costs more; the wire's thread takes its time
  // too.
  if (transport->wire() != nullptr && patience.spin.count() > 0) patience.spin = kWireSpin;
  // What a paced rank waits for takes long: a core that spins all the while would count as busy communicating.
  if (link) patience.spin = std::chrono::nanoseconds(0);
  threads->set_spin(patience.spin);
}

WorldState::WorldState(std::unique_ptr<Transport> transport_in, const WorldOptions& options)
    : WorldState(*transport_in, options) {
  owned = std::move(transport_in);
}

WorldState::~WorldState() {
  if (trace) trace->finish();
}

World::World(std::shared_ptr<WorldState> state) : state_(std::move(state)) {}

World World::init(int, char**, const WorldOptions& options) {
  best_isa();  // refuses a WEFT_ISA that this machine cannot serve before other ranks wait for this one
  auto transport = launched() ? join_launch(wire_of(options)) : std::move(make_thread_transports(1)[0]);
  return World(std::make_shared<WorldState>(std::move(transport), options));
}

World World::join(const Directory& directory, const WorldOptions& options) {
  best_isa();
  return World(std::make_shared<WorldState>(attach_directory(directory, wire_of(options)), options));
}

void World::local(int num_ranks, const std::function<void(World&)>& body, const WorldOptions& options) {
  best_isa();
  run_thread_ranks(num_ranks, [&](Transport& transport) {
    World world(std::make_shared<WorldState>(transport, options));
    body(world);
  });
}

int World::rank() const { return state_->transport->rank(); }
int World::size() const { return state_->transport->size(); }
std::string_view World::transport() const { return state_->transport->name(); }
bool World::has_wire() const { return state_->transport->wire() != nullptr; }
ThreadPool& World::threads() const { return *state_->threads; }
void World::barrier() { state_->transport->barrier(); }

Cluster World::cluster(int num_ranks) const {
  Cluster cluster = state_->cluster;
  if (state_->link) {
    cluster.network = {state_->link->bytes_per_s, state_->link->latency_s};
    cluster.fabric = state_->link->fabric;
    cluster.ranks_per_host = state_->ranks_per_host;
    cluster.num_hosts = static_cast<int>(ceil_div(num_ranks, cluster.ranks_per_host));
  }
  if (state_->transport->wire() != nullptr) {
    cluster = with_wire(cluster);
    cluster.ranks_per_host = state_->ranks_per_host;
    cluster.num_hosts = static_cast<int>(ceil_div(num_ranks, cluster.ranks_per_host));
  }
  return fitted(cluster, num_ranks);
}

Mesh World::mesh(std::vector<Axis> axes) const {
  std::vector<int> hosts;
  for (int rank = 0; rank < size(); ++rank) hosts.push_back(state_->transport->host_index(rank));
  int ranks = 1;
  for (const Axis& axis : axes) ranks *= axis.size;
  Mesh mesh(std::move(axes), ranks == size() ? hosts : std::vector<int>());
  if (mesh.size() != size())
    bad_input("mesh {} has {} ranks, but the world has {}; make the axes multiply to {}", to_string(mesh), mesh.size(),
              size(), size());
  return mesh;
}

Op World::compile(const Producer& producer, const Space& space) {
  const Plan plan = build(producer, space, cluster(space.mesh.size()));
  return space.kind == SpaceKind::keep ? allot(plan, {{rank()}, 0}) : compile(plan, space.mesh, space.axis);
}

Op World::compile(const Space& gather, const Producer& producer) {
  return compile(build(gather, producer, cluster(gather.mesh.size())), gather.mesh, gather.axis);
}

Op World::compile(const Plan& plan, const Mesh& mesh, std::string_view axis) {
  if (mesh.size() != size())
    bad_input("mesh {} has {} ranks, but the world has {}", to_string(mesh), mesh.size(), size());
  return allot(plan, mesh.group(axis, rank()));
}

Op World::compile(const Plan& plan, const Group& group) {
  if (group.position < 0 || group.position >= group.size() || group.ranks[at(group.position)] != rank())
    bad_input("rank {} is not at position {} of the group it compiles plan \"{}\" for", rank(), group.position,
              plan.name);
  return allot(plan, group);
}

Op World::compile(const Plan& plan) {
  Group all;
  for (int rank = 0; rank < size(); ++rank) all.ranks.push_back(rank);
  all.position = rank();
  return allot(plan, all);
}

void World::prove(const Plan& plan, const std::string& text) {
  if (state_->prove && state_->proved.find(text) == nullptr)
    state_->proved.add(text, require_runnable(plan, {state_->proof_budget}).own_outputs);
}

Op World::allot(const Plan& plan, const Group& group) {
  if (group.size() != plan.num_ranks)
    bad_input("plan \"{}\" is for {} ranks, but the group has {}", plan.name, plan.num_ranks, group.size());
  const std::string text = to_json(plan);
  prove(plan, text);
  const Signalling signalling = agree(*state_, text, group);
  const Expander expander(plan);
  auto op = std::make_unique<Op::State>();
  op->world = state_;
  op->plan = plan;
  op->rank = group.position;
  if (const std::vector<int>* own = state_->proved.find(text); own != nullptr) op->own_outputs = *own;
  op->reads = inputs_read(plan, expander.program(group.position));
  op->bindings.producers.resize(plan.producers.size());
  op->bindings.buffers.resize(plan.buffers.size(), nullptr);
  allocate(*op, expander, group);
  CpuOptions options = cpu_options(*op, signalling);
  if (op->transits != nullptr)
    for (const int rank : group.ranks) options.transits.push_back(op->transits->base[rank]);
  op->executor = std::make_unique<CpuExecutor>(plan, group.position, op->memory, *state_->transport, *state_->threads,
                                               std::move(options));
  state_->live.push_back(op->executor.get());
  if (state_->first_run > 0) state_->transport->barrier();  // all counters stand before anybody raises one
  return Op(std::move(op));
}

}  // namespace weft
