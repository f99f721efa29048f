#!/usr/bin/env bash
# setup.sh run|test: sees to the Debian packages that `make run` or `make test` needs (tools/packages.txt).
# Says nothing when they are there. Installs what is missing as root or through sudo; otherwise prints the
# one command to run and fails. WEFT_SKIP_SETUP=1 skips it, for systems where the libraries come otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."

list=${1:?usage: tools/setup.sh run|test}
[[ ${WEFT_SKIP_SETUP:-0} == 1 ]] && exit 0
if ! command -v dpkg-query >/dev/null; then
  echo "setup: not a Debian system; install the equivalents of tools/packages.txt and set WEFT_SKIP_SETUP=1" >&2
  exit 1
fi

# Optional packages that apt could not give are not asked for again until this file is removed.
unavailable=build/setup-unavailable.txt

wanted() {  # wanted required|optional
  awk -v list="$list" -v kind="$1" '
    /^#/ || NF < 2 { next }
    ($1 == "run" || $1 == list) && (kind == "optional") == ($3 == "optional") { print $2 }' tools/packages.txt
}

missing() {  # of the packages on stdin, those not installed
  local packages
  mapfile -t packages
  ((${#packages[@]})) || return 0
  { dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true; } |
    awk -v all="${packages[*]}" '
      $2 == "installed" { have[$1] = 1 }
      END { n = split(all, name, " "); for (i = 1; i <= n; i++) if (!(name[i] in have)) print name[i] }'
}

mapfile -t required < <(wanted required | missing)
mapfile -t optional < <(wanted optional | missing | { [[ -f $unavailable ]] && grep -vxFf "$unavailable" || cat; } || true)
((${#required[@]} + ${#optional[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
    as_root=(sudo)
  elif ((${#required[@]})); then
    echo "setup: packages are missing; run this as root, then again what you ran:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends ${required[*]} ${optional[*]}" >&2
    exit 1
  else
    echo "setup: going on without the optional ${optional[*]}" >&2
    exit 0
  fi
fi

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@"; }

echo "setup: installing ${required[*]} ${optional[*]}" >&2
apt update >&2 || echo "setup: apt-get update failed; trying with the lists there are" >&2
if ((${#required[@]})) && ! apt install -y --no-install-recommends "${required[@]}" >&2; then
  echo "setup: apt-get could not install ${required[*]}; see its message above" >&2
  exit 1
fi
lost=()
for package in "${optional[@]}"; do
  apt install -y --no-install-recommends "$package" >&2 2>/dev/null || lost+=("$package")
done
if ((${#lost[@]})); then
  mkdir -p build
  printf '%s\n' "${lost[@]}" >>"$unavailable"
  echo "setup: going on without the optional ${lost[*]} (apt-get has none; remove $unavailable to try again)" >&2
fi
