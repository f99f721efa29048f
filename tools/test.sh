#!/usr/bin/env bash
# test.sh [long]: what `make test` and `make test-long` run after setup.
#   without a word   the folder law; then in release every test that is not labelled slow; and under ASan and UBSan
#                    the light ones: what reads files, proves plans and runs them; and the PyTorch package, where
#                    torch is there
#   long             the slow ones in release, the heavy ones under ASan and UBSan, and under TSan all whose ranks are
#                    threads
# Labels are told in cmake/WeftTargets.cmake: `slow` runs whole models or virtual hosts, `heavy` thousands of plans or
# what stands above weft/world. Each fits its time on two cores with nothing compiled before: 20 minutes, and 30.
# Goes on past failing tests, stops at a build that fails. The last line is "N passed, M failed"; the exit status is 0
# only where M is 0.
set -uo pipefail
cd "$(dirname "$0")/.."

passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

finish() {
  echo "$passed passed, $failed failed"
  ((failed == 0))
  exit
}

# A sanitizer that only reports would leave the exit status at 0.
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export LSAN_OPTIONS=suppressions=$PWD/tools/leaks.txt
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
# UCX writes over the first instructions of mmap, which crashes under TSan (openucx/ucx issue 8475); TCP has no need of it.
export UCX_MEM_MMAP_HOOK_MODE=none

# TSan of gcc 12 cannot place its shadow where the kernel randomises 32 bits of addresses.
steady=()
if setarch "$(uname -m)" -R true 2>/dev/null; then steady=(setarch "$(uname -m)" -R); fi

layers() {
  local start=$SECONDS
  echo "== layers: the folder law, types defined twice, and that documents name what is there"
  local check
  for check in check_layers check_types check_test check_docs; do
    if python3 tools/$check.py; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  done
  echo "== layers: $((SECONDS - start)) s"
}

# phase PRESET FOLDER WHAT TARGETS CTEST_ARGUMENTS...: configure, build, test; adds to the totals.
phase() {
  local preset=$1 folder=$2 what=$3 start=$SECONDS
  local targets=($4)
  shift 4
  echo "== $preset: $what"
  if ! { cmake --preset "$preset" -D WEFT_CUDA=ON && "${steady[@]}" cmake --build --preset "$preset" --target "${targets[@]}"; } >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "== $preset: the build failed after $((SECONDS - start)) s"
    failed=$((failed + 1))
    finish
  fi
  local built=$((SECONDS - start)) status
  "${steady[@]}" ctest --test-dir "$folder" --output-on-failure --no-tests=error -j 2 "$@" 2>&1 | tee "$log" |
    grep -vE '^ *[0-9]+/[0-9]+ Test .* Passed |^ *Start +[0-9]+: '
  status=${PIPESTATUS[0]}
  count "$status"
  echo "== $preset: $built s to build, $((SECONDS - start - built)) s to test"
}

# The PyTorch package, where a torch is there to build it for.
python() {
  local start=$SECONDS bad=0 good=0
  tools/python.sh test 2>&1 | tee "$log"
  local status=${PIPESTATUS[0]}
  grep -q '^== python: skipped' "$log" && return
  good=$(sed -nE 's/(.*[^0-9])?([0-9]+) passed.*/\2/p' "$log" | tail -n 1)
  bad=$(sed -nE 's/(.*[^0-9])?([0-9]+) failed.*/\2/p' "$log" | tail -n 1)
  if ((status != 0 && ${bad:-0} == 0)); then bad=1; fi  # it did not build
  passed=$((passed + ${good:-0}))
  failed=$((failed + ${bad:-0}))
  echo "== python: $((SECONDS - start)) s"
}

# Reads "98% tests passed, 1 tests failed out of 64"; skipped tests count neither way.
count() {
  local total=0 bad=0 skipped
  read -r bad total < <(sed -nE 's/.* tests passed, ([0-9]+) tests failed out of ([0-9]+).*/\1 \2/p' "$log") || true
  bad=${bad:-0} total=${total:-0}
  skipped=$(grep -cE '^ *[0-9]+/[0-9]+ Test .*\*\*\*Skipped' "$log")
  if (($1 != 0 && bad == 0)); then
    failed=$((failed + 1))  # ctest itself failed, or found no test
  fi
  passed=$((passed + total - bad - skipped))
  failed=$((failed + bad))
}

case ${1:-short} in
  short)
    layers
    phase release build "every test that is not slow" all -LE slow
    phase dev build-dev "the light tests, with ASan and UBSan" light_tests -L light
    python
    ;;
  long)
    phase release build "the slow tests; the programs of bench/ build" "all bench_programs" -L slow
    phase dev build-dev "the heavy tests, with ASan and UBSan" heavy_tests -L heavy
    # The simulator has no threads, and distilling and calibrating have those of the engine: they would take half of the time.
    phase tsan build-tsan "ranks that are threads, with TSan" threads_tests -L threads -E '^(SimStudy|SimSummary|Distill|Calibration)[.]'
    ;;
  *)
    echo "test.sh: '$1' is not a set of tests; use test.sh or test.sh long" >&2
    exit 2
    ;;
esac
finish
