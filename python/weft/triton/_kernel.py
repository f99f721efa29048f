"""What a kernel calls: @triton.jit functions over the tables of a plan, which _op.py lays out.

A program is one of those that share a rank's tiles. All of its threads take the same branches: whatever decides one is
read by one thread and handed to all, as Triton does for atomics. A clock is not, so it goes through a word of the
program's own (_time).

Ordering. `put` stores, a barrier follows, and one thread raises the counter with release at system scope: what all
threads of the program stored comes before it. `wait` reads the counter with acquire at system scope by one thread, and
its value reaches the others through a barrier: what they load comes after it. A store by a tensor descriptor (TMA) would
need a wait for its completion in between, which Triton 3.6 does not make: so `put` stores by threads.

Flattening. A kernel's loop over tiles is one with its loop over k (flatten=True), so that operands of the next tile are
loaded while this one is stored. What Triton 3.6 needs for that (python/tests/test_triton_ptx.py sees when it is lost):
  - The last operation is a plain one. FuseNestedLoops fails, and the compiler with it, where an `if` or `while` comes
    last and uses what was made after the loop over k. So `signal` ends with one atomic under a mask.
  - No tl.debug_barrier: a loop with one is not pipelined, and nothing says so. An atomic of one thread whose result nobody
    reads brings no barrier either. So `signal` takes its count through a maximum, which brings one (_agreed).
  - `put` takes what was summed apart before any branch: read in a branch, it makes ptxas run one wgmma after the other.
  - Little is kept while k goes on, since sums take 128 of 255 registers. So `tile` loads a row and a column, and the
    others load the rest of a lane themselves.
  - `put` has one way for all tiles, of strips of columns. A second, though never run, would take registers of its own.
"""

import time

import triton
import triton.language as tl
from triton.language.extra import cuda

# Words of a rank's head (i64), and of its state. _op.py fills them in.
HEAD = tl.constexpr(16)
WAITS = tl.constexpr(3)  # of a head, where addresses of tables are
PLACES = tl.constexpr(4)
SIGNALS = tl.constexpr(5)
PACE = tl.constexpr(11)  # picoseconds per byte
# A lane has row, col, rows, cols; first of and how many waits, sources, targets, signals; and a copy of the first of each:
# what most tiles have one of is then there after one load.
WAIT = tl.constexpr(5)  # counter, at, total, lag, stamp
PLACE = tl.constexpr(4)  # first element, stride, copy, each in 16 bytes, the first from the plan's address; depth - 1
SIGNAL = tl.constexpr(4)  # counter, stamp, link, bytes
FIRST = tl.constexpr(12)  # where the copies begin in a lane
LANE = tl.constexpr(12 + 5 + 4 + 4 + 4)
STATE = tl.constexpr(8)  # run, ended, failed, then rank, lane, wait, seen, ns of the failure; then a clock per program
STRIPS = tl.constexpr(2)  # halvings of a tile
MOVED = tl.constexpr(64)  # rows and columns that a trigger moves at a time
MOST_THREADS = tl.constexpr(1024)  # of a program

# What begin() gives, and _lane().
PLAN = tl.constexpr(0)
HEADER = tl.constexpr(1)
LANES = tl.constexpr(2)
STATES = tl.constexpr(3)
RUN = tl.constexpr(4)
PROGRAM = tl.constexpr(5)
HEIGHT = tl.constexpr(0)
WIDTH = tl.constexpr(1)
SOURCES = tl.constexpr(2)
TARGETS = tl.constexpr(3)

BETWEEN_LOOKS_NS = tl.constexpr(100000)  # of a wait that has not been given up, at whether another was


def clock_ns(_semantic=None):
    """Nanoseconds of one clock for all ranks of a machine; of each thread by itself."""
    if _semantic is None:  # the interpreter calls it as Python
        return time.monotonic_ns()
    return cuda.globaltimer(_semantic=_semantic)


clock_ns.__triton_builtin__ = True


def num_warps(_semantic=None):
    """Of a program; the interpreter has but one thread."""
    if _semantic is None:
        return 1
    return cuda.num_warps(_semantic=_semantic)


num_warps.__triton_builtin__ = True


@triton.jit
def begin(plan):
    """me, which of the launch's ranks this is, the first of this program's tiles, their distance, and the rank's tiles."""
    heads = plan.to(tl.pointer_type(tl.int64), bitcast=True)
    programs = tl.load(heads + 1)
    here = (tl.program_id(0) // programs).to(tl.int32)
    first = (tl.program_id(0) % programs).to(tl.int32)
    head = heads + here * HEAD
    lanes = tl.load(head + 2).to(tl.pointer_type(tl.int64))
    state = tl.load(head + 9).to(tl.pointer_type(tl.int64))
    me = (plan, head, lanes, state, tl.load(state), first)
    tiles = tl.load(head + 6).to(tl.int32)
    opening = tl.load(head + 7).to(tl.int32)
    for i in range(tiles + first, tiles + opening, programs.to(tl.int32)):
        _fire(me, i)
    return me, here, first, programs.to(tl.int32), tiles


@triton.jit
def tile(me, index):
    """Tile `index` of this rank, and the row and column of the output where it begins. Its other words are not loaded."""
    lane = me[LANES] + index * LANE
    return index, tl.load(lane).to(tl.int32), tl.load(lane + 1).to(tl.int32)


@triton.jit
def wait(me, tile):
    """Until all that the tile needs of other ranks is there. Given up after the op's deadline, which names the wait."""
    lane = me[LANES] + tile * LANE
    first, count, inline = tl.load(lane + 4), tl.load(lane + 5).to(tl.int32), _wait(lane + FIRST)
    if count > 0:
        _await(me, tile, 0, inline)
    i = 1
    while i < count:
        _await(me, tile, i, _wait(_table(me, WAITS) + (first + i) * WAIT))
        i += 1


@triton.jit
def put(me, tile, value):
    """((source + source) + ...) + value, in f32, rounded once, to every place that the tile has."""
    lane = _lane(me, tile)
    firsts = _firsts(me, lane, value.shape[0], value.shape[1], 0, STRIPS)
    _put_strips(me, lane, value.to(tl.float32), firsts, 0, STRIPS)


@triton.jit
def signal(me, tile):
    """What this program has put is there for whoever waits for it."""
    lane = me[LANES] + tile * LANE
    first, inline = tl.load(lane + 10), _signal(lane + FIRST + WAIT + 2 * PLACE)
    count = _agreed(tl.load(lane + 11).to(tl.int32))
    i = 1
    while i < count:
        words = _signal(_table(me, SIGNALS) + (first + i) * SIGNAL)
        _stamp(me, words)
        tl.atomic_add(words[0].to(tl.pointer_type(tl.int32)), 1, sem="release", scope="sys")
        i += 1
    if count > 0:
        _stamp(me, inline)
    tl.atomic_add(inline[0].to(tl.pointer_type(tl.int32)), 1, mask=count > 0, sem="release", scope="sys")


@triton.jit
def end(me):
    """What is left of the run: signals that could wait, triggers; by the last program of the rank, the next run's number."""
    head, state, first = me[HEADER], me[STATES], me[PROGRAM]
    programs = tl.load(head + 1).to(tl.int32)
    tl.debug_barrier()
    late = tl.load(head + 13).to(tl.pointer_type(tl.int64))
    i = 0
    while i < tl.load(head + 14):
        entry = late + i * (programs + 1)
        counter = tl.load(entry).to(tl.pointer_type(tl.int32))
        tl.atomic_add(counter, tl.load(entry + 1 + first).to(tl.int32), sem="release", scope="sys")
        i += 1
    before = (tl.load(head + 6) + tl.load(head + 7)).to(tl.int32)
    closing = tl.load(head + 8).to(tl.int32)
    for i in range(before + first, before + closing, programs):
        _fire(me, i)
    tl.debug_barrier()
    ended = tl.atomic_add(state + 1, 1, sem="acq_rel", scope="gpu")
    if (ended + 1) % programs == 0:
        tl.atomic_add(state, 1, sem="relaxed", scope="gpu")


@triton.jit
def _wait(words):
    return (tl.load(words), tl.load(words + 1), tl.load(words + 2), tl.load(words + 3), tl.load(words + 4))


@triton.jit
def _place(words):
    return (tl.load(words), tl.load(words + 1), tl.load(words + 2), tl.load(words + 3))


@triton.jit
def _signal(words):
    return (tl.load(words), tl.load(words + 1), tl.load(words + 2), tl.load(words + 3))


@triton.jit
def _table(me, word: tl.constexpr):
    return tl.load(me[HEADER] + word).to(tl.pointer_type(tl.int64))


@triton.jit
def _lane(me, index):
    """What a put needs of it."""
    lane = me[LANES] + index * LANE
    sources = (tl.load(lane + 6), tl.load(lane + 7).to(tl.int32), _place(lane + FIRST + WAIT))
    targets = (tl.load(lane + 8), tl.load(lane + 9).to(tl.int32), _place(lane + FIRST + WAIT + PLACE))
    return tl.load(lane + 2), tl.load(lane + 3), sources, targets


@triton.jit
def _agreed(value):
    """The value, once all threads of the program have come here.

    A barrier that the pipeliner does not know for one: warps hand each other the parts of a maximum. Those of 1024 numbers,
    as many as a program can have threads. One warp alone would not wait for its own stores: there a barrier follows.
    """
    if num_warps() == 1:
        tl.debug_barrier()
    return tl.max(tl.full((MOST_THREADS,), value, tl.int32) + tl.arange(0, MOST_THREADS)) - (MOST_THREADS - 1)


@triton.jit
def _fire(me, index):
    """One lane of a trigger: its sources added up, in parts, as many as it has."""
    wait(me, index)
    lane = _lane(me, index)
    if lane[TARGETS][1] > 0:
        for i in range(0, lane[HEIGHT].to(tl.int32), MOVED):
            for j in range(0, lane[WIDTH].to(tl.int32), MOVED):
                total = _others(me, lane, _load(me, lane, lane[SOURCES][2], MOVED, MOVED, i, j), i, j)
                _store(me, lane, total, i, j)
    signal(me, index)


@triton.jit
def _await(me, lane, number, wait):
    address, at, total, lag, stamp = wait
    run, state = me[RUN], me[STATES]
    counter = address.to(tl.pointer_type(tl.int32))
    need = ((run - lag) * total + at).to(tl.int32)  # modulo 2^32, as counters are
    if run >= lag:
        seen = tl.atomic_add(counter, 0, sem="acquire", scope="sys")
        if seen - need < 0:
            deadline = tl.load(me[HEADER] + 10)
            _time(me)
            began = _time(me)
            failed = 0
            while (seen - need < 0) & (failed == 0):
                seen = tl.atomic_add(counter, 0, sem="acquire", scope="sys")
                waited = _time(me) - began
                if waited > deadline:
                    _give_up(me, lane, number, seen - (need - at.to(tl.int32)), waited)
                if waited > BETWEEN_LOOKS_NS:
                    failed = tl.atomic_add(state + 2, 0, sem="relaxed", scope="gpu").to(tl.int32)
        if tl.load(me[HEADER] + PACE) > 0:
            _await_link(me, stamp.to(tl.pointer_type(tl.int64)))


@triton.jit
def _await_link(me, stamp):
    """Of a paced link: until what was signalled has passed it. The stamp was raised before the counter was."""
    due = tl.atomic_add(stamp, 0, sem="relaxed", scope="sys")
    now = _time(me)
    while now < due:
        now = _time(me)


@triton.jit
def _time(me):
    """The clock at the last call, the same for all threads: what one of them leaves here, all of them are handed."""
    return tl.atomic_xchg(me[STATES] + STATE + me[PROGRAM], clock_ns(), sem="relaxed", scope="gpu")


@triton.jit
def _give_up(me, lane, number, seen, waited):
    state = me[STATES]
    if tl.atomic_xchg(state + 2, 1, sem="relaxed", scope="gpu") == 0:
        tl.store(state + 3, tl.load(me[HEADER]))
        tl.store(state + 4, lane)
        tl.store(state + 5, number)
        tl.store(state + 6, seen)
        tl.store(state + 7, waited)


@triton.jit
def _stamp(me, signal):
    """Of a paced link: when it will have passed what is signalled."""
    address, stamp, link, size = signal
    pace = tl.load(me[HEADER] + PACE)
    if (pace > 0) & (link != 0):
        # The next free time of the link: a clock that is behind is brought up to now, then moved on by what the bytes take.
        took = size * pace // 1000
        free = link.to(tl.pointer_type(tl.int64))
        tl.atomic_max(free, clock_ns(), sem="relaxed", scope="sys")
        due = tl.atomic_add(free, took, sem="relaxed", scope="sys") + took + tl.load(me[HEADER] + 12)
        tl.atomic_max(stamp.to(tl.pointer_type(tl.int64)), due, sem="relaxed", scope="sys")


@triton.jit
def _pointers(me, place, ROWS: tl.constexpr, COLS: tl.constexpr, row, col):
    """Of a part of a place in this run. It and its rows begin at multiples of 16 bytes from the plan's own address: told in
    such units, so that the compiler knows, and moves 16 bytes at a time."""
    first, stride, copy, mask = place
    UNIT: tl.constexpr = 128 // me[PLAN].dtype.element_ty.primitive_bitwidth
    rows = (tl.arange(0, ROWS) + row)[:, None] * (stride * UNIT)
    return me[PLAN] + (first + (me[RUN] & mask) * copy) * UNIT + rows + (tl.arange(0, COLS) + col)[None, :]


@triton.jit
def _inside(tile, ROWS: tl.constexpr, COLS: tl.constexpr, row, col):
    rows, cols = tile[HEIGHT].to(tl.int32), tile[WIDTH].to(tl.int32) // 8 * 8  # a multiple of 8 anyhow, said to the compiler
    return ((tl.arange(0, ROWS) + row)[:, None] < rows) & ((tl.arange(0, COLS) + col)[None, :] < cols)


@triton.jit
def _load(me, tile, place, ROWS: tl.constexpr, COLS: tl.constexpr, row, col):
    inside = _inside(tile, ROWS, COLS, row, col)
    return tl.load(_pointers(me, place, ROWS, COLS, row, col), mask=inside, other=0).to(tl.float32)


@triton.jit
def _others(me, tile, total, row, col):
    """total, and after it all sources but the first."""
    first, count, inline = tile[SOURCES]
    i = 1
    while i < count:
        place = _place(_table(me, PLACES) + (first + i) * PLACE)
        total = total + _load(me, tile, place, total.shape[0], total.shape[1], row, col)
        i += 1
    return total


@triton.jit
def _store(me, tile, total, row, col):
    first, count, inline = tile[TARGETS]
    inside = _inside(tile, total.shape[0], total.shape[1], row, col)
    made = total.to(me[PLAN].dtype.element_ty)
    tl.store(_pointers(me, inline, total.shape[0], total.shape[1], row, col), made, mask=inside)
    i = 1
    while i < count:
        place = _place(_table(me, PLACES) + (first + i) * PLACE)
        tl.store(_pointers(me, place, total.shape[0], total.shape[1], row, col), made, mask=inside)
        i += 1


@triton.jit
def _firsts(me, tile, ROWS: tl.constexpr, COLS: tl.constexpr, col, HALVINGS: tl.constexpr):
    """Of every strip, the first source, if there is one, in its own type: all of them are on their way at once."""
    if HALVINGS == 0:
        sources = tl.zeros([1, 1], tl.int32) + tile[SOURCES][1]  # a scalar's mask is none to Triton 3.9's interpreter
        inside = _inside(tile, ROWS, COLS, 0, col) & (sources > 0)
        return tl.load(_pointers(me, tile[SOURCES][2], ROWS, COLS, 0, col), mask=inside, other=0.0)
    else:
        HALF: tl.constexpr = COLS // 2
        left = _firsts(me, tile, ROWS, HALF, col, HALVINGS - 1)
        return left, _firsts(me, tile, ROWS, HALF, col + HALF, HALVINGS - 1)


@triton.jit
def _put_strips(me, tile, value, firsts, col, HALVINGS: tl.constexpr):
    """Half of the columns after the other, again and again, since sums need registers of their own."""
    if HALVINGS == 0:
        if tile[SOURCES][1] > 0:
            value = _others(me, tile, firsts.to(tl.float32), 0, col) + value
        _store(me, tile, value, 0, col)
    else:
        HALF: tl.constexpr = value.shape[1] // 2
        left, right = tl.split(tl.permute(tl.reshape(value, (value.shape[0], 2, HALF)), (0, 2, 1)))
        _put_strips(me, tile, left, firsts[0], col, HALVINGS - 1)
        _put_strips(me, tile, right, firsts[1], col + HALF, HALVINGS - 1)
