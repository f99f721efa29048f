#!/usr/bin/env bash
# test_neon.sh: the kernels' tests as a machine with NEON runs them, compiled by a cross compiler and run by qemu-user:
# right or wrong only, no times. Debian: g++-aarch64-linux-gnu qemu-user libgtest-dev. usage: tools/test_neon.sh [FILTER]
set -euo pipefail
cd "$(dirname "$0")/.."
for program in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$program" >/dev/null || { echo "test_neon: no $program (Debian: g++-aarch64-linux-gnu qemu-user); skipped"; exit 0; }
done
out=${WEFT_NEON_BUILD:-build-neon}
gtest=/usr/src/googletest/googletest
mkdir -p "$out/include"
for headers in fmt nlohmann; do ln -sfn "/usr/include/$headers" "$out/include/$headers"; done  # headers alone: the same anywhere
sources=(weft/base/{choices,cores,dtype,error,thread_pool}.cc $(find weft/base/quant weft/kernel -name '*.cc'))
newest=$(find weft/base weft/kernel -type f -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2-)  # a header, too, makes all old
compile() {  # SOURCE OBJECT: where the tree is the newer, or for gtest the source
  local against=$newest; [[ $1 == /* ]] && against=$1
  [[ $2 -nt $against ]] || aarch64-linux-gnu-g++ -std=c++20 -O2 -ffp-contract=off -w -DNDEBUG -DFMT_HEADER_ONLY -I. -I"$out/include" \
    -I"$gtest" -I"$gtest/include" -c "$1" -o "$2"
}
export -f compile; export out gtest newest
objects=()
jobs=()
for source in "${sources[@]}" "$gtest/src/gtest-all.cc" "$gtest/src/gtest_main.cc"; do
  object=$out/$(echo "${source#/}" | tr / _).o
  objects+=("$object"); jobs+=("$source" "$object")
done
printf '%s\0' "${jobs[@]}" | xargs -0 -n 2 -P "$(nproc)" bash -c 'compile "$1" "$2"' _
aarch64-linux-gnu-g++ -static "${objects[@]}" -o "$out/kernel_test" -pthread
exec qemu-aarch64 "$out/kernel_test" --gtest_brief=1 --gtest_filter="${1:-*}"
