# Sourced by tools/try and tools/test: makes .venv in the checkout with quire installed, once for each set of extras.
# Needs Python 3.11 or later and nothing else. QUIRE_VENV names another folder.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${QUIRE_VENV:-$root/.venv}

find_python() {
  for name in python3 python3.13 python3.12 python3.11 python; do
    if command -v "$name" >/dev/null 2>&1 &&
      "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  echo "quire needs Python 3.11 or later, and found none on the PATH" >&2
  exit 2
}

# setup EXTRAS: install quire, editable, with these extras ("" for none).
setup() {
  local extras=$1 spec="$root" stamp
  [ -n "$extras" ] && spec="$root[$extras]"
  stamp="$venv/.quire-${extras:-base}-$(cksum < "$root/pyproject.toml" | cut -d' ' -f1)"
  if [ ! -e "$stamp" ]; then
    [ -x "$venv/bin/python" ] || "$(find_python)" -m venv "$venv"
    echo "installing quire${extras:+ with $extras} into ${venv#"$root"/} ..."
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e "$spec"
    touch "$stamp"
  fi
}
