#!/usr/bin/env bash
# test_gpu.sh: what `make test-gpu` runs on a machine with an NVIDIA H100 or H200: the CUDA executor against the
# reference, the same under compute-sanitizer on small shapes, then the figures of docs/results/h200.md. Without nvcc or
# without a GPU it says so in a line. Libraries of cuBLASLt are looked for where pip puts them.
set -uo pipefail
cd "$(dirname "$0")/.."

build=build
cmake --preset release --log-level=WARNING >/dev/null || exit 1
if ! grep -q 'CUDA_WORKS:INTERNAL=1' $build/CMakeCache.txt; then
  echo "nvcc or its libraries are missing here: nothing to test"
  exit 0
fi
cmake --build --preset release --target cuda_test cuda_gemm weft_cli || exit 1
if ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
  echo "there is no GPU here: the tests of the CUDA executor are skipped"
  $build/tests/cuda_test | grep SKIPPED
  exit 0
fi

lt=$(find /opt /usr /home -name libcublasLt.so.13 2>/dev/null | head -1)
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$(dirname "${lt:-/}")
failed=0
run() { echo "== $*"; "$@" || failed=$((failed + 1)); }
bench() { run $build/weft bench "$@" --device cuda --ranks 4 --n 8192 --rounds 9; }
run $build/tests/cuda_test
for tool in memcheck synccheck racecheck; do
  run compute-sanitizer --tool $tool --error-exitcode 9 $build/tests/cuda_test \
    --gtest_filter='Cuda.*BitForBit:Cuda.*Graph:Cuda.RunTime*'
done
run $build/bench/cuda_gemm all
for k in 1024 2048 4096; do  # links: about as long as the gemm by a ring
  for op in gemm-rs gemm-ar; do bench $op --m 8192 --k $k --link hbm; done
  bench ag-gemm --m 2048 --k $k --link hbm
  bench gemm-rs --m 8192 --k $k --link $((1081344 / k))gbit,1us
  bench gemm-ar --m 8192 --k $k --link $((2162688 / k))gbit,1us
  bench ag-gemm --m 2048 --k $k --link 136gbit,1us
done
bench gemm-a2a --m 8192 --k 2048 --link 360gbit,1us
echo "$failed failed"
((failed == 0))
