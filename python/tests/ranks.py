"""Starts ranks as torchrun would, without its agent, which would end the survivors of a fault before they speak.

A body is a function of a module of bodies/; each rank is a process that runs it by name (body.py). The test's own
process serves the store.
"""

import os
import pathlib
import subprocess
import sys

import torch.distributed as dist

HERE = pathlib.Path(__file__).parent


def start(body, num_ranks, store, **env):
    ranks = []
    for rank in range(num_ranks):
        given = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(num_ranks),
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": str(store.port),
            "TORCHELASTIC_RUN_ID": "test",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "OMP_NUM_THREADS": "1",
            "WEFT_CLUSTER": "default",
            **env,
        }
        command = [sys.executable, str(HERE / "body.py"), body]
        ranks.append(subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    return ranks


def new_store():
    return dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)


def run(body, num_ranks, timeout=240, **env):
    """The output of every rank; all must end well."""
    store = new_store()
    return outputs_of(start(body, num_ranks, store, **env), body, timeout)


def outputs_of(ranks, body, timeout):
    """The output of every rank that was started; all must end well."""
    try:
        outputs = [rank.communicate(timeout=timeout)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for number, (rank, output) in enumerate(zip(ranks, outputs)):
        assert rank.returncode == 0, f"rank {number} of {body} ended with {rank.returncode}:\n{output}"
    return outputs
