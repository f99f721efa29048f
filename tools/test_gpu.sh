#!/usr/bin/env bash
# test_gpu.sh: what `make test-gpu` runs on a machine with an NVIDIA H100 or H200: the CUDA executor against the
# reference, the same under compute-sanitizer on small shapes, then the figures of docs/results/h200.md.
#
#   tools/test_gpu.sh [PART...]    all parts, or those named: tests ranks torch sanitizers gemm hbm paced pcie experts
#                                  gemv embedding ledger
#   tools/test_gpu.sh --pack       builds here and packs the programs, with the libraries they need, into
#                                  build-cuda/gpu.tar.xz
#
# Where build-cuda/gpu.tar.xz is, its programs are run and nothing is built: so a machine with a GPU needs neither nvcc
# nor our dependencies. Elsewhere they are built first; without nvcc or without a GPU the script says so in a line.
# Libraries of cuBLASLt are looked for where pip puts them. `ranks` and `torch` start MPS, so that processes share the GPU,
# and stop it again; `torch` runs where python3 has a torch with CUDA and `make python` has built the package.
set -uo pipefail
cd "$(dirname "$0")/.."

all_parts="tests ranks torch sanitizers gemm hbm paced pcie experts gemv embedding ledger"
packed=build-cuda/gpu.tar.xz
build=build

build_programs() {
  cmake --preset release --log-level=WARNING -D WEFT_CUDA=ON >/dev/null || exit 1
  if ! grep -q 'CUDA_WORKS:INTERNAL=1' $build/CMakeCache.txt; then
    echo "nvcc or its libraries are missing here: nothing to test"
    exit 0
  fi
  cmake --build --preset release --target cuda_test cuda_ranks_test cuda_gemm cuda_call weft_cli || exit 1
}

package() { ls -d build-python/venv/lib/python3.*/site-packages/weft 2>/dev/null | head -1; }

pack_programs() {
  build_programs
  local into
  into=$(mktemp -d)
  mkdir -p build-cuda "$into/tests" "$into/bench" "$into/lib"
  local programs=(weft tests/cuda_test tests/cuda_ranks_test bench/cuda_gemm bench/cuda_call)
  for program in "${programs[@]}"; do cp $build/$program "$into/$program" && strip "$into/$program" || exit 1; done
  if [ -n "$(package)" ]; then
    mkdir "$into/python" && cp -r "$(package)" "$into/python/" && strip "$into/python/weft/_weft.so"
  fi
  # Not the C library: that is the machine's own.
  ldd "${programs[@]/#/$into/}" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -Ev '/lib(c|m|dl|rt|pthread|resolv)\.so|/ld-linux' | xargs -r -I{} cp -L {} "$into/lib/"
  tar -C "$into" -cJf $packed . && ls -l $packed
  rm -rf "$into"
}

if [ "${1:-}" = --pack ]; then
  pack_programs
  exit
fi
parts=${*:-$all_parts}
for part in $parts; do
  if [[ " $all_parts " != *" $part "* ]]; then
    echo "test_gpu.sh knows no part \"$part\"; use some of: $all_parts" >&2
    exit 2
  fi
done

if [ -f $packed ]; then
  build=build-cuda/unpacked
  mkdir -p $build && tar -C $build -xJf $packed || exit 1
  export LD_LIBRARY_PATH=$PWD/$build/lib:${LD_LIBRARY_PATH:-} WEFT_DATA=$PWD
  export PYTHONPATH=$PWD/$build/python:${PYTHONPATH:-}
else
  build_programs
  [ -z "$(package)" ] || export PYTHONPATH=$PWD/$(dirname "$(package)"):${PYTHONPATH:-}
fi
if ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
  echo "there is no GPU here: the tests of the CUDA executor are skipped"
  $build/tests/cuda_test | grep SKIPPED
  exit 0
fi
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv,noheader

lt=$(find /opt /usr /home /root -name libcublasLt.so.13 2>/dev/null | head -1)
[ -n "$lt" ] || echo "libcublasLt.so.13 is not here: figures are without it"
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$(dirname "${lt:-/}")
failed=0
run() {
  echo "== $*"
  local begin=$SECONDS
  timeout "${LIMIT_S:-300}" "$@" || failed=$((failed + 1))
  echo "-- $((SECONDS - begin)) s"
}
bench() { run $build/weft bench "$@" --device cuda --ranks "${RANKS:-4}" --rounds "${ROUNDS:-9}"; }

tests() { run $build/tests/cuda_test; }
with_mps() {
  nvidia-cuda-mps-control -d
  CUDA_DEVICE_MAX_CONNECTIONS=8 "$@"  # 32 are too many where processes share them
  echo quit | nvidia-cuda-mps-control
}
ranks() { # a launch each: threads; then processes
  run $build/tests/cuda_ranks_test
  with_mps run $build/tests/cuda_ranks_test --gtest_filter='*Process*'
}
torch() {
  if ! python3 -c 'import torch, weft; assert torch.cuda.is_available()' 2>/dev/null; then
    echo "== torch: skipped, python3 has no torch with CUDA, or no weft (make python)"
    return
  fi
  run python3 -m unittest discover -s python/tests -p test_triton_gpu.py
  with_mps run python3 -m unittest discover -s python/tests -p test_gpu.py
  for ranks in 1 4; do # the host's part of a call: from C++, then from PyTorch
    with_mps run $build/weft run -n $ranks -- $build/bench/cuda_call
    with_mps run torchrun --standalone --nproc-per-node $ranks tools/call_torch_gpu.py
  done
  with_mps run torchrun --standalone --nproc-per-node 4 tools/bench_torch_gpu.py --rounds "${ROUNDS:-9}"
}
# Not over pcie: a sanitizer may hold the host until a kernel has ended, and that waits for copies to come.
sanitizers() {
  for tool in memcheck synccheck racecheck; do
    run compute-sanitizer --tool $tool --error-exitcode 9 $build/tests/cuda_test \
      --gtest_filter='Cuda.*BitForBit:Cuda.*Graph:Cuda.RunTime*:Cuda.AWord*:Cuda.BagsRaise*-Cuda.*Pcie*'
  done
}
gemm() { run $build/bench/cuda_gemm all; }
hbm() {
  for k in 1024 2048 4096; do
    for op in gemm-rs gemm-ar; do bench $op --m 8192 --n 8192 --k $k --link hbm; done
    bench ag-gemm --m 2048 --n 8192 --k $k --link hbm
  done
  bench gemm-a2a --m 8192 --n 8192 --k 2048 --link hbm # with cuBLASLt through windows
}
paced() { # links on which the collective alone takes half as long as the gemm, as long, and twice as long. What moves in
  # memory alone takes some 750 us for sums: at k 1024 that is as long as the gemm
  local k rate
  local -A scatter=([1024]="1056 231" [2048]="1056 232 101" [4096]="240 104 49")
  local -A reduce=([1024]="2112 374" [2048]="2112 376 183" [4096]="386 188 93")
  local ROUNDS=${ROUNDS:-5}
  for k in 1024 2048 4096; do
    for rate in ${scatter[$k]}; do bench gemm-rs --m 8192 --n 8192 --k $k --link ${rate}gbit,1us; done
    for rate in ${reduce[$k]}; do bench gemm-ar --m 8192 --n 8192 --k $k --link ${rate}gbit,1us; done
    for rate in 100 48 23.5; do bench ag-gemm --m 2048 --n 8192 --k $k --link ${rate}gbit,1us; done
  done
  bench gemm-rs --m 8192 --n 8192 --k 2048 --link 400gbit,2us,nic # all that leaves a rank shares a link
  bench gemm-a2a --m 8192 --n 8192 --k 2048 --link 360gbit,1us
}
pcie() { # all ranks share the one PCIe of the GPU: a gemm as long as that is deep
  for k in 6144 12288 16384; do bench gemm-rs --m 8192 --n 8192 --k $k --link pcie; done
  bench gemm-ar --m 8192 --n 8192 --k 16384 --link pcie
  bench gemm-a2a --m 8192 --n 8192 --k 12288 --link pcie # with cuBLASLt in panels
}
experts() { # an eighth of a GPU has an eighth of NVLink 4 (450 GB/s), and of a NIC of 400 Gbit/s, for 7 peers
  local RANKS=8 link skew
  for link in pcie 64gbit,1us 7gbit,2us; do
    for skew in 0 0.3; do
      bench gemm-a2a --workload workloads/mixtral-8x7b.json --tokens 8192 --skew $skew --link $link
      bench gemm-a2a --workload workloads/deepseek-v3-moe.json --tokens 2048 --skew $skew --link $link
    done
  done
}
gemv() {
  for n in 4096 8192 12288; do
    for m in 1 4 16; do bench gemv-ar --m $m --n $n --k $((n / 4)) --link hbm; done
  done
}
embedding() {
  for pooling in 1 2 4 8 16; do
    bench embedding-a2a --tables 6 --rows 400000 --dim 128 --batch 8192 --pooling $pooling --link hbm
  done
  for pooling in 16 64; do
    bench embedding-a2a --tables 6 --rows 400000 --dim 128 --batch 8192 --pooling $pooling --link pcie
  done
}
ledger() {
  for link in hbm pcie; do
    run $build/weft ledger --workload workloads/t-nlg.json --full --device cuda --ranks 4 \
      --rounds "${ROUNDS:-9}" --link $link
  done
}
for part in $parts; do $part; done
echo "$failed failed"
((failed == 0))
