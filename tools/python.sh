#!/usr/bin/env bash
# python.sh: builds python/ and installs it into a virtual environment. VENV names it (build-python/venv where it is not
# set); one that is there keeps its torch, a new one gets torch, scikit-build-core, pytest and numpy from pip.
# python.sh test: runs its tests where torch is there, else says in a line that it is not.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${VENV:-build-python/venv}

has_torch() { "$venv/bin/python" -c "import torch; v = torch.__version__.split('.'); assert (int(v[0]), int(v[1])) >= (2, 11)" 2>/dev/null; }

install() {
  "$venv/bin/python" -c 'import scikit_build_core, pytest, numpy' 2>/dev/null ||
    "$venv/bin/pip" install -q scikit-build-core pytest numpy  # torch asks for numpy no more, but sends objects by it
  "$venv/bin/pip" install -q --no-build-isolation --no-deps ./python
}

if [[ ${1:-} == test ]]; then
  if ! has_torch; then
    echo "== python: skipped, $venv has no torch 2.11 or later (make python installs one, or set VENV)"
    exit 0
  fi
  install
  exec "$venv/bin/python" -m pytest -q python/tests
fi
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
has_torch || "$venv/bin/pip" install -q torch --extra-index-url https://download.pytorch.org/whl/cpu
install
"$venv/bin/python" -c 'import weft; print("weft is installed in", weft.__path__[0])'
