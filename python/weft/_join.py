"""How a process becomes a rank, and which world serves which process group.

A world is joined once per process group, when the group is first used: that is collective over the group alone. Ranks
find each other through a store (torchrun's, or that of torch.distributed), in which they leave where they meet and a
secret; keys carry torchrun's restart count, so that ranks of a restarted job do not meet those of before.
"""

import atexit
import ctypes
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import weft._library  # noqa: F401

_WAIT = timedelta(seconds=float(os.environ.get("WEFT_WAIT_S", "100")))
_Publish = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
_LookUp = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64)

_joined = {}  # name of a world -> (rank, size); "" is all ranks
_worlds = {}  # name of a process group -> name of its world
_pid = None  # of the process that joined
_backend_began = False  # the c10d backend joined all ranks before weft.init() did


def init(threads=None):
    """Joins the ranks of this launch; once a process, and collective over all ranks.

    Under torchrun through its store; under `weft run` or mpirun as any program of Weft; else a world of this process
    alone. `threads` of each rank are torch's unless given.
    """
    _refuse_in_child()
    if "" in _joined and _backend_began:
        return
    if "" in _joined:
        raise RuntimeError("this process has joined Weft already; call weft.init() once")
    threads = torch.get_num_threads() if threads is None else threads
    if threads < 1:
        raise RuntimeError(f"threads is {threads}; give 1 or more")
    if dist.is_initialized():
        _join("", dist.get_rank(), dist.get_world_size(), dist.distributed_c10d._get_default_store(), threads)
    elif "TORCHELASTIC_RUN_ID" in os.environ:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        # torchrun's agent serves the store, unless it was told to leave that to rank 0.
        agent_serves = os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "True") == "True"
        store = dist.TCPStore(address, port, is_master=rank == 0 and not agent_serves, timeout=_WAIT)
        _join("", rank, size, store, threads)
    else:
        torch.ops.weft.init(threads)
        _joined[""] = torch.ops.weft.rank(""), torch.ops.weft.size("")
    _begin()


def join_store(store, rank, size):
    """The name of the world of a c10d group that has this store to itself; collective over the group.

    Where nothing was joined before, it is the group of all ranks, and its world becomes that of weft.init().
    """
    global _backend_began
    _refuse_in_child()
    if not _joined:
        _join("", rank, size, store, torch.get_num_threads())
        _backend_began = True
        _begin()
        return ""
    name = f"c10d group {len(_joined)}"
    _join(name, rank, size, store, torch.get_num_threads(), key="c10d")
    return name


def leave():
    """Says that this rank needs its peers no more. Called when Python ends; later ops are refused."""
    if _joined and _pid == os.getpid():
        _joined.clear()
        _worlds.clear()
        torch.ops.weft.leave()


def name_of(group):
    """The name of the world that serves a group, which is joined where it is new.

    `group`: None for all ranks, a ProcessGroup, a DeviceMesh of one dimension, or (mesh, name of a dimension).
    """
    if group is None or not _joined:
        return ""  # where nothing was joined, the op says so
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise RuntimeError(f"rank {dist.get_rank()} is not in this group; call from the group's ranks alone")
    if isinstance(group, tuple):
        group = group[0].get_group(group[1])
    elif not isinstance(group, dist.ProcessGroup):
        group = group.get_group()  # of a DeviceMesh of one dimension
    if group.group_name not in _worlds:
        # A group of the backend "weft" has joined already.
        _worlds[group.group_name] = getattr(group, "weft_name", None) or _world_of(group)
    return _worlds[group.group_name]


def place_in(name):
    """(rank, size) in a world that was joined."""
    if name not in _joined:
        raise RuntimeError("this process has not joined Weft; call weft.init() first")
    return _joined[name]


def _world_of(group):
    ranks = dist.get_process_group_ranks(group)
    if ranks == list(range(_joined[""][1])):
        return ""
    name = f"{group.group_name} of ranks {','.join(map(str, ranks))}"
    store = dist.distributed_c10d._get_default_store()
    _join(name, ranks.index(dist.get_rank()), len(ranks), store, torch.get_num_threads())
    return name


def _refuse_in_child():
    if _pid is not None and _pid != os.getpid():
        raise RuntimeError("this process was forked from a rank of Weft and is none; start ranks with torchrun")


def _begin():
    global _pid
    _pid = os.getpid()
    atexit.register(_at_exit)


def _join(name, rank, size, store, threads, key=None):
    prefix = f"weft/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{key or name or 'all ranks'}"

    def publish(key, text):
        try:
            store.set(f"{prefix}/{rank}/{key.decode()}", text)
            return 0
        except Exception:  # said by the op
            return 1

    def look_up(of, key, text, room):
        try:
            path = f"{prefix}/{of}/{key.decode()}"
            store.wait([path], _WAIT)
            found = store.get(path)
            if len(found) > room:
                return -1
            ctypes.memmove(text, found, len(found))
            return len(found)
        except Exception:
            return -1

    ends = _Publish(publish), _LookUp(look_up)
    addresses = [ctypes.cast(end, ctypes.c_void_p).value for end in ends]
    torch.ops.weft.join(name, rank, size, *addresses, threads)
    _joined[name] = rank, size


def _at_exit():
    # A rank that ends by an error ends without leaving, so that its peers hear of it at once.
    if not hasattr(sys, "last_value"):
        leave()
