#include "weft/plan/assumptions.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/plan/structure.h"

namespace weft {
namespace {

// Lanes that do not begin where the tiles of a packed buffer do are looked at one by one, so many of them.
constexpr std::int64_t kMostOddLanes = 4096;

bool adds_up(Dtype dtype) { return dtype == Dtype::f32 || dtype == Dtype::bf16 || dtype == Dtype::int8; }

// a * b, or `most` + 1 where that is more.
std::int64_t product(std::int64_t a, std::int64_t b, std::int64_t most) {
  return a > 0 && b > most / a ? most + 1 : std::min(a * b, most + 1);
}

// Do lanes of `lane` elements, from lo to hi, each lie in one tile? Tiles begin anew every `block` elements.
bool lanes_fit(std::int64_t lo, std::int64_t hi, std::int64_t lane, std::int64_t block, std::int64_t tile) {
  if (lane == tile && lo % block % tile == 0 && lo % block + (hi - lo) <= block) return true;
  if ((hi - lo) / lane >= kMostOddLanes) return false;
  for (std::int64_t begin = lo; begin < hi; begin += lane) {
    const std::int64_t size = std::min(lane, hi - begin), row = begin % block;
    if (row + size > block || row % tile + size > tile) return false;
  }
  return true;
}

std::int64_t lane_size(const Action& action, int d) {
  const std::int64_t size = action.box.size(d);
  return d < 2 && action.tile[d] > 0 ? std::min(action.tile[d], size) : size;
}

// What a kernel is told: the tile, even where the box is smaller.
std::int64_t tile_size(const Action& action, int d) { return action.tile[d] > 0 ? action.tile[d] : action.box.size(d); }

}  // namespace

Assumptions::Assumptions(const Plan& plan, const Expander& expander) : plan_(plan) {
  extents_.reserve(num(plan.num_ranks) * plan.buffers.size());
  for (int rank = 0; rank < plan.num_ranks; ++rank)
    for (int b = 0; b < int_size(plan.buffers); ++b) {
      const std::vector<std::int64_t> shape = expander.shape(b, rank);
      Extent& out = extents_.emplace_back();
      out.dims = int_size(shape);
      std::copy(shape.begin(), shape.end(), out.size.begin());
      out.block_rows = expander.block_rows(b, rank);
    }
  for (const Buffer& b : plan.buffers)
    traits_.push_back({b.role == Role::input, b.packing.tile_rows > 0, adds_up(b.dtype)});
}

std::string Assumptions::of_plan() const {
  for (const Producer& p : plan_.producers) validated(p, plan_.num_ranks);
  for (int rank = 0; rank < plan_.num_ranks; ++rank)
    for (int b = 0; b < int_size(plan_.buffers); ++b)
      if (std::string fault = of_buffer(rank, b); !fault.empty()) return fault;
  return {};
}

std::string Assumptions::of_buffer(int rank, int index) const {
  const Buffer& buffer = plan_.buffers[at(index)];
  const Extent& here = extents_[at(rank) * plan_.buffers.size() + at(index)];
  if (buffer.packing.tile_rows > 0)
    if (std::string fault = of_packing(buffer, here); !fault.empty()) return fault;
  if (buffer.dtype == Dtype::int8 &&
      (buffer.role != Role::internal || buffer.packing.tile_rows <= 0 || buffer.packing.tile_cols % kInt8Block != 0))
    return fmt::format("buffer \"{}\" is int8 but not internal and packed in tiles of a multiple of {} columns",
                       buffer.name, kInt8Block);
  if (plan_.producers.empty()) return {};
  const Dtype made = plan_.producers[0].y();
  if (buffer.role == Role::output && buffer.name == "y" && buffer.dtype != made)
    return fmt::format("output \"y\" is {}, but a producer makes {}; make it {}, or an internal buffer of that type",
                       to_string(buffer.dtype), to_string(made), to_string(made));
  return buffer.role == Role::input ? of_x(buffer, here, rank) : std::string{};
}

std::string Assumptions::of_packing(const Buffer& buffer, const Extent& here) const {
  const Packing& packing = buffer.packing;
  if (buffer.role != Role::internal)
    return fmt::format("{} \"{}\" is packed in tiles, but the caller's memory is row-major; pack internal buffers only",
                       to_string(buffer.role), buffer.name);
  if (here.dims != 2 || here.block_rows < 1 || packing.tile_cols < 1)
    return fmt::format("buffer \"{}\" has {} dimensions and cannot be packed in blocks of {} rows, in tiles of {} x {}",
                       buffer.name, here.dims, here.block_rows, packing.tile_rows, packing.tile_cols);
  const auto times = [](std::int64_t a, std::int64_t b) { return product(a, b, kMaxElements); };
  const auto up = [](std::int64_t a, std::int64_t b) { return a / b + (a % b > 0); };
  const std::int64_t tiles = times(up(here.block_rows, packing.tile_rows), up(here.size[1], packing.tile_cols));
  const std::int64_t block = times(times(tiles, packing.tile_rows), packing.tile_cols);
  if (times(up(here.size[0], here.block_rows), block) <= kMaxElements && block <= kMaxElements) return {};
  return fmt::format("buffer \"{}\", packed in tiles of {} x {}, has more than {} elements; make tiles smaller",
                     buffer.name, packing.tile_rows, packing.tile_cols, kMaxElements);
}

// Beside producers, input buffers stand for the rows x of the first.
std::string Assumptions::of_x(const Buffer& buffer, const Extent& here, int rank) const {
  const Producer& p = plan_.producers[0];
  const bool makes_rows = p.kind == ProducerKind::gemm || p.kind == ProducerKind::gemv;
  if (!makes_rows && p.kind != ProducerKind::copy)
    return fmt::format("input \"{}\" stands beside a producer {}, which has no rows x; leave it out", buffer.name,
                       to_string(p.kind));
  if (buffer.dtype != p.x())
    return fmt::format("input \"{}\" is {}, but it is the x of a {}, which is {}", buffer.name, to_string(buffer.dtype),
                       to_string(p.kind), to_string(p.x()));
  const std::int64_t most = p.m * (makes_rows ? p.k : p.columns(rank));
  std::int64_t elements = 1;
  for (int d = 0; d < here.dims; ++d) elements *= here.size[at(d)];
  if (elements <= most) return {};
  return fmt::format("input \"{}\" has {} elements on rank {}, but the x of its {} has {}", buffer.name, elements, rank,
                     to_string(p.kind), most);
}

const Producer& Assumptions::finisher(const Action& action) const {
  return plan_.producers[at(std::max(action.producer, 0))];
}

std::string Assumptions::of_action(const Program& program, const Action& action) const {
  if (action.lanes == 0) return {};  // nobody runs it
  if (!pieces_hold(program, action))
    for (const auto check : {&Assumptions::of_shapes, &Assumptions::of_pieces, &Assumptions::of_values})
      if (std::string fault = (this->*check)(program, action); !fault.empty()) return fault;
  if (action.kind == ActionKind::step)
    if (std::string fault = of_step(program, action); !fault.empty()) return fault;
  if (action.finish)
    if (std::string fault = of_epilogue(program, action); !fault.empty()) return fault;
  return of_tiles(action);
}

// One pass that finds all right with nearly every action; where it does not, the rules say what is wrong, if anything.
bool Assumptions::pieces_hold(const Program& program, const Action& action) const {
  const bool is_trigger = action.kind == ActionKind::trigger;
  if (is_trigger && (action.reads.size() > 0 || (action.sources.size() == 0 && action.targets.size() > 0)))
    return false;
  for (std::int32_t p = action.reads.begin; p < action.targets.end; ++p) {  // reads, sources, targets lie together
    const Piece& piece = program.pieces[at(p)];
    const Traits& traits = traits_[at(piece.buffer)];
    const Extent& there = extent(piece);
    for (int d = 0; d < piece.box.dims; ++d)
      if (piece.box.hi[at(d)] > there.size[at(d)]) return false;
    const bool by_rows = p < action.reads.end, write = p >= action.targets.begin;
    if (by_rows ? piece.box.size(0) != action.box.size(0) : !same_shape(piece.box, action.box)) return false;
    if (write ? traits.input : piece.rank != program.rank) return false;
    if (action.box.dims == 0 || !traits.adds_up) return false;
    if (traits.packed && !of_lanes(action, piece).empty()) return false;
  }
  return true;
}

std::string Assumptions::of_shapes(const Program& program, const Action& action) const {
  for (const auto list : {program.sources(action), program.targets(action)})
    for (const Piece& p : list)
      if (action.box.dims == 0 || !same_shape(p.box, action.box))
        return fmt::format("works on {}, but one of its pieces is {} of \"{}\"", to_string(action.box),
                           to_string(p.box), plan_.buffers[at(p.buffer)].name);
  for (const Piece& p : program.reads(action)) {
    if (action.kind == ActionKind::trigger)
      return fmt::format("reads rows of \"{}\", but only steps make something from rows; make it a source",
                         plan_.buffers[at(p.buffer)].name);
    if (action.box.dims == 0 || p.box.size(0) != action.box.size(0))
      return fmt::format("makes {} rows from {} rows of \"{}\"", action.box.size(0), p.box.size(0),
                         plan_.buffers[at(p.buffer)].name);
  }
  if (action.kind == ActionKind::trigger && action.sources.size() == 0 && action.targets.size() > 0)
    return "has targets but nothing to store";
  return {};
}

std::string Assumptions::of_pieces(const Program& program, const Action& action) const {
  for (const Piece& p : program.reads(action))
    if (std::string fault = of_piece(program, action, p, false); !fault.empty()) return fault;
  for (const Piece& p : program.sources(action))
    if (std::string fault = of_piece(program, action, p, false); !fault.empty()) return fault;
  for (const Piece& p : program.targets(action))
    if (std::string fault = of_piece(program, action, p, true); !fault.empty()) return fault;
  return {};
}

std::string Assumptions::of_piece(const Program& program, const Action& action, const Piece& piece, bool write) const {
  const Buffer& buffer = plan_.buffers[at(piece.buffer)];
  const Extent& there = extent(piece);
  for (int d = 0; d < piece.box.dims; ++d)
    if (piece.box.hi[at(d)] > there.size[at(d)])
      return fmt::format("touches {} of \"{}\" on rank {}, which has only {} in dimension {}", to_string(piece.box),
                         buffer.name, piece.rank, there.size[at(d)], d);
  if (!write && piece.rank != program.rank)
    return fmt::format("reads \"{}\" of rank {}; a rank reads only its own memory", buffer.name, piece.rank);
  if (write && buffer.role == Role::input) return fmt::format("writes the input \"{}\"", buffer.name);
  return buffer.packing.tile_rows > 0 ? of_lanes(action, piece) : std::string{};
}

// A lane of a packed buffer lies in one of its tiles. Nobody reads or writes a part of an int8 block: its values have
// one scale.
std::string Assumptions::of_lanes(const Action& action, const Piece& piece) const {
  const Buffer& buffer = plan_.buffers[at(piece.buffer)];
  const Packing& packing = buffer.packing;
  const Extent& there = extent(piece);
  const Box& box = piece.box;
  const std::int64_t width = lane_size(action, 1);
  if (box.dims != 2 || !lanes_fit(box.lo[0], box.hi[0], lane_size(action, 0), there.block_rows, packing.tile_rows) ||
      !lanes_fit(box.lo[1], box.hi[1], width, there.size[1], packing.tile_cols))
    return fmt::format("cuts {} of the packed buffer \"{}\" across its tiles", to_string(box), buffer.name);
  if (buffer.dtype == Dtype::int8 &&
      (box.lo[1] % kInt8Block != 0 || (box.hi[1] % kInt8Block != 0 && box.hi[1] != there.size[1]) ||
       (width < box.size(1) && width % kInt8Block != 0)))
    return fmt::format("cuts {} of \"{}\" inside a block of {} columns", to_string(box), buffer.name, kInt8Block);
  return {};
}

std::string Assumptions::of_step(const Program& program, const Action& action) const {
  const Producer& p = plan_.producers[at(action.producer)];
  const Box& box = action.box;
  const std::int64_t columns = p.columns(program.rank);
  const bool stacks = action.reads.size() > 0 && !p.addend;
  if (box.dims != 2 || box.hi[1] > columns || (!stacks && box.hi[0] > p.m))
    return fmt::format("makes {} of an output of {} x {}", to_string(box), p.m, columns);
  if (action.reads.size() > 0)
    if (std::string fault = of_reads(program, action); !fault.empty()) return fault;
  if (p.kind == ProducerKind::embedding_bag) {
    const bool one_table = tile_size(action, 1) == p.dim || (box.size(1) == p.dim && tile_size(action, 1) > p.dim);
    if (box.lo[1] % p.dim != 0 || box.size(1) % p.dim != 0 || !one_table)
      return fmt::format("makes {} in tiles of {} columns, but a tile of an embedding_bag is one whole table of {}",
                         to_string(box), tile_size(action, 1), p.dim);
  }
  return p.kind == ProducerKind::window ? of_window(program, action) : std::string{};
}

std::string Assumptions::of_window(const Program& program, const Action& action) const {
  for (const Wait& wait : program.of(action))
    if (wait.per > 0 && action.lanes > 1)
      return "waits lane by lane, but the rows of a window are written all at once; let one counter tell of them";
  const Dtype written = plan_.producers[at(action.producer)].y();
  for (const Piece& target : program.targets(action)) {
    const Buffer& buffer = plan_.buffers[at(target.buffer)];
    if (buffer.dtype != written || buffer.packing.tile_rows > 0)
      return fmt::format("stores rows of a window in \"{}\", which is {}{}; they stay as they were written, in {}",
                         buffer.name, to_string(buffer.dtype), buffer.packing.tile_rows > 0 ? ", packed" : "",
                         to_string(written));
  }
  return {};
}

// The kernel is told where the first row begins, and that the next is k values further.
std::string Assumptions::of_reads(const Program& program, const Action& action) const {
  const Producer& p = plan_.producers[at(action.producer)];
  const auto reads = program.reads(action);
  if (p.kind != ProducerKind::gemm && p.kind != ProducerKind::gemv)
    return fmt::format("reads rows for a {}; only a gemm and a gemv take theirs from a buffer", to_string(p.kind));
  if (reads.size() > 1) return fmt::format("reads rows of {} pieces; a product has one", reads.size());
  const Buffer& buffer = plan_.buffers[at(reads[0].buffer)];
  const Extent& here = extent(reads[0]);
  if (buffer.dtype != p.x() || buffer.packing.tile_rows > 0 || here.dims != 2)
    return fmt::format("reads rows of \"{}\", which is {}{} in {} dimensions; rows of a product are {}, row after row",
                       buffer.name, to_string(buffer.dtype), buffer.packing.tile_rows > 0 ? ", packed," : "", here.dims,
                       to_string(p.x()));
  if (here.size[1] == p.k && reads[0].box.lo[1] == 0 && reads[0].box.hi[1] == p.k) return {};
  return fmt::format("reads {} of \"{}\", whose rows have {} values; a product with k {} reads whole rows of {}",
                     to_string(reads[0].box), buffer.name, here.size[1], p.k, p.k);
}

// A tile that is made, or added up for several targets, or finished, lies in memory of its own.
std::string Assumptions::of_tiles(const Action& action) const {
  const bool is_step = action.kind == ActionKind::step;
  const bool adds = action.sources.size() + is_step > 1;
  if (!is_step && !action.finish && !(adds && action.targets.size() > 1)) return {};
  const int last = action.box.dims - 1;
  std::int64_t elements = last == 1 ? tile_size(action, 1) : action.box.size(last);
  for (int d = 0; d < last; ++d) elements = product(elements, lane_size(action, d), kMostTileElements);
  const ProducerKind kind = is_step ? plan_.producers[at(action.producer)].kind : ProducerKind::copy;
  const bool is_product = kind == ProducerKind::gemm || kind == ProducerKind::gemv;
  const std::int64_t most = is_product || kind == ProducerKind::embedding_bag ? kMostGemmElements : kMostTileElements;
  const bool too_long = is_product && (tile_size(action, 0) > kMostGemmTile || tile_size(action, 1) > kMostGemmTile);
  if (elements <= most && !too_long) return {};
  return fmt::format("works on tiles of {} x {}; a tile of a {} has at most {} elements; cut the box into smaller ones",
                     tile_size(action, 0), last > 0 ? tile_size(action, 1) : 1, to_string(kind), most);
}

std::string Assumptions::of_values(const Program& program, const Action& action) const {
  const auto targets = program.targets(action), sources = program.sources(action);
  if (targets.empty()) return {};
  bool all_add_up = true, one_type = true;
  const Dtype first = plan_.buffers[at(targets[0].buffer)].dtype;
  for (const auto list : {sources, targets})
    for (const Piece& p : list) {
      const Dtype dtype = plan_.buffers[at(p.buffer)].dtype;
      all_add_up = all_add_up && adds_up(dtype);
      one_type = one_type && dtype == first;
    }
  const bool only_moves = action.kind == ActionKind::trigger && sources.size() == 1 && !action.finish;
  if (all_add_up || (only_moves && one_type)) return {};
  const Piece* odd = nullptr;
  for (const auto list : {sources, targets})
    for (const Piece& p : list)
      if (odd == nullptr && !adds_up(plan_.buffers[at(p.buffer)].dtype)) odd = &p;
  const Buffer& buffer = plan_.buffers[at(odd->buffer)];
  return fmt::format("makes, adds up or converts {} of \"{}\"; only f32, bf16 and int8 can be", to_string(buffer.dtype),
                     buffer.name);
}

// Bias and residual are found by the places of the box and of the first target in this rank's output.
std::string Assumptions::of_epilogue(const Program& program, const Action& action) const {
  const auto targets = program.targets(action);
  if (targets.empty()) return "finishes what it stores nowhere";
  if (action.box.dims != 2)
    return fmt::format("finishes {}; an epilogue is applied to rows and columns", to_string(action.box));
  const Producer& p = finisher(action);
  const std::int64_t columns = p.columns(program.rank);
  if (p.bias && action.box.hi[1] > columns)
    return fmt::format("finishes {}, but the bias has {} columns", to_string(action.box), columns);
  if (!p.residual) return {};
  const Buffer& buffer = plan_.buffers[at(targets[0].buffer)];
  if (targets[0].rank != program.rank || buffer.role != Role::output)
    return "adds a residual, but its first target is not its own output";
  if (extent(targets[0]).size[1] == columns) return {};
  return fmt::format("adds a residual of {} columns to \"{}\", which has {}", columns, buffer.name,
                     extent(targets[0]).size[1]);
}

bool Assumptions::hold_for(const Program& program) const {
  return std::all_of(program.actions.begin(), program.actions.end(),
                     [&](const Action& action) { return of_action(program, action).empty(); });
}

bool assumptions_hold(const Plan& plan, const Expander& expander, const Program& program) {
  const Assumptions assumptions(plan, expander);
  return assumptions.of_plan().empty() && assumptions.hold_for(program);
}

}  // namespace weft
