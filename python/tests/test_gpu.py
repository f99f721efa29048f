"""Ops on tensors of a GPU (bodies/gpu.py). Most need a GPU and MPS, or a GPU per rank: python3 -m unittest, or with the
other tests."""

import os
import pathlib
import subprocess
import sys
import unittest

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import ranks  # noqa: E402


def _can_share():
    """Whether processes run on a GPU at the same time: MPS answers, or there is one for each."""
    if not torch.cuda.is_available():
        return False
    if torch.cuda.device_count() > 1:
        return True
    asked = subprocess.run(["nvidia-cuda-mps-control"], input="get_server_list\n", text=True, capture_output=True)
    return asked.returncode == 0


class WithoutAGpu(unittest.TestCase):
    def test_every_op_has_a_kernel_for_gpus(self):
        """Else a tensor there would get the dispatcher's page-long message."""
        import weft  # noqa: F401

        names = {name.split(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("weft::")}
        computing = [name for name in names if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")]
        self.assertGreater(len(computing), 9)
        for name in computing:
            self.assertTrue(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA"), name)

    def test_a_plan_of_ones_own_is_refused_there_in_a_sentence(self):
        from weft import _cuda

        with self.assertRaisesRegex(RuntimeError, r"weft\.run_plan: x is on a GPU.*\.cpu\(\).*weft\.triton"):
            _cuda._refuse_plan("", None, None, "")


@unittest.skipUnless(_can_share(), "no GPU that processes share: start MPS with nvidia-cuda-mps-control -d")
class OnGpus(unittest.TestCase):
    def run_body(self, body, *counts):
        for num_ranks in counts:
            with self.subTest(ranks=num_ranks):
                ranks.run(body, num_ranks, timeout=120, CUDA_DEVICE_MAX_CONNECTIONS="8")

    def test_linear_ops_agree_with_plain_torch(self):
        self.run_body("gpu_agreement", 2, 4)

    def test_collectives_agree_and_move_any_bits(self):
        self.run_body("gpu_collectives", 2, 3)

    def test_counts_at_run_time(self):
        self.run_body("gpu_counts", 3)

    def test_bags_forward_and_backward(self):
        self.run_body("gpu_bags", 2)

    def test_gradients(self):
        self.run_body("gpu_gradients", 2)

    def test_a_recorded_graph_goes_on_counting_runs(self):
        self.run_body("gpu_graph", 2)

    def test_bad_input_is_a_sentence_and_ranks_go_on(self):
        self.run_body("gpu_bad_input", 2)


if __name__ == "__main__":
    os.chdir(pathlib.Path(__file__).parent)
    unittest.main()
