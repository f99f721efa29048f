// Compiling an op for GPUs. Ranks tell each other who they are and where they compute; then where their memory is,
// which all of them map.
#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/collective/build.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"
#include "weft/world/cuda/accord.h"
#include "weft/world/cuda/cuda_form.h"
#include "weft/world/cuda/cuda_state.h"
#include "weft/world/cuda/trials.h"
#include "weft/world/world_state.h"

namespace weft {
namespace {

std::int64_t output_bytes(const Plan& plan, int rank) {
  const int y = plan.buffer("y");
  std::int64_t bytes = size_of(plan.buffers[at(y)].dtype);
  for (const std::int64_t size : Expander(plan).shape(y, rank)) bytes *= size;
  return bytes;
}

Json json_of(const GpuSite& site) {
  return {{"process", site.process},
          {"gpu", site.gpu},
          {"name", site.name},
          {"multiprocessors", site.multiprocessors},
          {"mps", site.mps}};
}

GpuSite site_of(const Json& json) {
  return {get_string(json, "process", kToldOfGpus), get_string(json, "gpu", kToldOfGpus),
          get_string(json, "name", kToldOfGpus), get_small(json, "multiprocessors", kToldOfGpus, 1, INT16_MAX),
          get_bool(json, "mps", kToldOfGpus)};
}

void check_plans(const std::vector<Json>& told, const Group& group) {
  const int self = group.ranks[at(group.position)];
  const auto digest = [&](int rank) { return get_string(told[at(rank)], "plan", kToldOfGpus); };
  for (const int rank : group.ranks)
    if (digest(rank) != digest(self))
      bad_input("ranks {} and {} compile different plans; give every rank of a group the same arguments", self, rank);
}

// Ranks divide a plan's tiles alike, so their GPUs are of one kind; and all their kernels must run at once.
void check_sites(const std::vector<GpuSite>& sites, const Group& group, const Transport& transport) {
  const int first = group.ranks[0];
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const int rank = group.ranks[i];
    if (transport.host_index(rank) != transport.host_index(first))
      bad_input("ranks {} and {} are on different hosts; ops on GPUs join those of one host", first, rank);
    if (sites[i].name != sites[0].name || sites[i].multiprocessors != sites[0].multiprocessors)
      bad_input("rank {} has {} and rank {} {}; give all ranks GPUs of one kind", first, sites[0].name, rank,
                sites[i].name);
    for (std::size_t j = 0; j < i; ++j)
      if (sites[i].gpu == sites[j].gpu && sites[i].process != sites[j].process && !sites[i].mps)
        bad_input(
            "ranks {} and {} are processes that share one GPU, which would run their kernels in turns; give each a GPU "
            "of its own, or start MPS (nvidia-cuda-mps-control -d)",
            group.ranks[j], rank);
  }
}

// The order of lanes is said or tried.
void check_order(const CudaOpOptions& options) {
  if (options.trials > 0 && !(options.order == LaneOrder{}))
    bad_input("trials choose the order of lanes, and one is given; leave out the order, or the trials");
}

CudaOpOptions in_order(CudaOpOptions options, const LaneOrder& order) {
  options.order = order;
  return options;
}

void make_executor(CudaOp::State* op, std::chrono::nanoseconds deadline, int launches, const LaneOrder& order) {
  const Producer& p = op->plan.producers[0];
  if (p.kind == ProducerKind::embedding_bag) {
    op->executor = std::make_unique<CudaBags>(
        op->plan, CudaBagOptions{.deadline = deadline, .rank = op->rank, .launches = launches});
  } else if (is_cuda_gemv(op->plan)) {
    op->executor = std::make_unique<CudaGemv>(
        op->plan, CudaGemvOptions{.rank = op->rank, .launches = launches, .deadline = deadline});
  } else {
    op->executor = std::make_unique<CudaExecutor>(
        op->plan, CudaOptions{.deadline = deadline, .order = order, .rank = op->rank, .launches = launches});
  }
}

// Where every rank's memory is in this process's addresses.
void connect(CudaOp::State* op, const std::vector<GpuSite>& sites, const std::vector<Json>& told) {
  std::visit(
      [&](const auto& executor) {
        std::vector<std::byte*> segments;
        for (std::size_t i = 0; i < sites.size(); ++i) {
          const bool own = at(op->rank) == i;
          op->peers.push_back(
              own ? PeerMemory()
                  : PeerMemory(sites[i], get_string(told[at(op->world_ranks[i])], "memory", kToldOfGpus)));
          segments.push_back(own ? executor->segment(op->rank) : op->peers.back().data());
        }
        executor->connect(segments);
      },
      op->executor);
}

// When a world ends, its last ops may still be in use elsewhere: it waits for the others to come as far.
std::shared_ptr<RetiredCudaOps> retired_ops(Transport& transport) {
  return {new RetiredCudaOps, [&transport](RetiredCudaOps* ops) {
            try {
              if (!ops->empty() && std::uncaught_exceptions() == 0) transport.barrier();
            } catch (const Error&) {  // somebody has left or failed, and uses nothing any more
            }
            delete ops;
          }};
}

// Collective over the world. Frees what all ranks have let go of. The last to free would wait for kernels of those that
// run at once, and these for its own: so all come away together.
void release_retired(WorldState& world) {
  if (world.retired == nullptr) world.retired = retired_ops(*world.transport);
  auto freed = world.retired->release(world.transport->all_gather(world.retired->ids()));
  world.transport->barrier();  // all have let go of each other's
  freed.clear();
  world.transport->barrier();
}

// Collective over the world. Every way is compiled and timed by all ranks at once, so they have equally many.
void agree_on_ways(Transport& transport, std::size_t ways) {
  const std::vector<std::string> told = transport.all_gather(std::to_string(ways));
  for (std::size_t rank = 1; rank < told.size(); ++rank)
    if (told[rank] != told[0])
      bad_input("rank 0 compiles {} ways of an op and rank {} {}; give all ranks the same shapes, routes and trials",
                told[0], rank, told[rank]);
}

// What ranks of a group are to have alike.
std::string digest(const std::string& plan, const CudaOpOptions& options) {
  const LaneOrder& order = options.order;
  return fmt::format("{} {} {} {} {}", std::hash<std::string>{}(plan), order.gathered_rows, order.sent_cols,
                     order.part_cols, options.trials);
}

}  // namespace

CudaOp World::keep_fastest(const std::vector<CudaWay>& ways, const CudaOpOptions& options,
                           const std::function<Plan(const CudaWay&)>& build, const Group& group) {
  const UseDevice scope(options.device >= 0 ? options.device : current_device());
  agree_on_ways(*state_->transport, ways.size());
  const auto compile = [&](const CudaWay& way) { return compile_way(build(way), group, in_order(options, way.order)); };
  if (ways.size() == 1) return compile(ways[0]);
  CudaTrials trials = try_cuda_ways(*state_->transport, ways, options.trials, compile);
  release_retired(*state_);
  trials.fastest.state_->plan.why = "tried: " + trials.tried;
  return std::move(trials.fastest);
}

CudaOp World::compile_cuda(const Producer& producer, const Space& space, const CudaOpOptions& options) {
  check_order(options);
  const auto few = few_rows_form(producer, space, options.sums);
  const CudaForm form = few ? *few : cuda_form(producer, with_cuda_route(space, producer), options.sums);
  const Group group = space.kind == SpaceKind::keep ? Group{{rank()}, 0} : space.mesh.group(space.axis, rank());
  std::vector<CudaWay> ways{{form.space.options.route, options.order}};
  if (!few && options.trials > 0) ways = cuda_ways(form.producer, by_route(form.space, space.options.route));
  const auto make = [&](const CudaWay& way) { return build(form.producer, by_route(form.space, way.route)); };
  return keep_fastest(ways, options, make, group);
}

CudaOp World::compile_cuda(const Space& gather, const Producer& producer, const CudaOpOptions& options) {
  check_order(options);
  const CudaForm form = cuda_form(producer, with_cuda_route(gather, producer), options.sums);
  const Group group = gather.mesh.group(gather.axis, rank());
  std::vector<CudaWay> ways{{form.space.options.route, options.order}};
  if (options.trials > 0) ways = cuda_gather_ways(by_route(form.space, gather.options.route));
  const auto make = [&](const CudaWay& way) { return build(by_route(form.space, way.route), form.producer); };
  return keep_fastest(ways, options, make, group);
}

CudaOp World::compile_cuda(const Plan& plan, const Group& group, const CudaOpOptions& options) {
  agree_on_ways(*state_->transport, 1);
  return compile_way(plan, group, options);
}

CudaOp World::compile_way(const Plan& plan, const Group& group, const CudaOpOptions& options) {
  if (group.size() != plan.num_ranks)
    bad_input("plan \"{}\" is for {} ranks, but the group has {}", plan.name, plan.num_ranks, group.size());
  WorldState& world = *state_;
  const UseDevice scope(options.device >= 0 ? options.device : current_device());
  release_retired(world);
  Accord accord(*world.transport, group);
  const std::vector<Json> told = accord.tell([&] {
    const std::string text = to_json(plan);
    prove(plan, text);
    Json mine = json_of(this_gpu());
    mine["plan"] = digest(text, options);
    return mine;
  });
  std::vector<GpuSite> sites;
  accord.check([&] {
    check_plans(told, group);
    for (const int rank : group.ranks) sites.push_back(site_of(told[at(rank)]));
    check_sites(sites, group, *world.transport);
  });
  auto op = std::make_shared<CudaOp::State>();
  op->id = world.cuda_ops++;
  const std::vector<Json> places = accord.tell([&] {
    op->plan = plan;
    op->rank = group.position, op->world_ranks = group.ranks;
    op->device = current_device(), op->y_bytes = output_bytes(plan, group.position);
    const GpuSite& site = sites[at(group.position)];
    const auto here = [&](auto& other) { return other.gpu == site.gpu; };
    const auto beside = [&](auto& other) { return here(other) && other.process == site.process; };
    op->in_step = std::count_if(sites.begin(), sites.end(), beside) > 1;
    op->queue = std::make_unique<DeviceQueue>(QueueKind::apart);
    make_executor(op.get(), options.deadline.count() > 0 ? options.deadline : world.patience.total,
                  static_cast<int>(std::count_if(sites.begin(), sites.end(), here)), options.order);
    const auto offer = [&](const auto& executor) { return offer_memory(executor->segment(op->rank)); };
    return Json{{"memory", std::visit(offer, op->executor)}};
  });
  accord.tell([&] {
    connect(op.get(), sites, places);
    return Json::object();
  });
  accord.settle();
  op->world = state_;
  return CudaOp(std::move(op));
}

}  // namespace weft
