#!/bin/sh
# run.sh BUILD [OPTION…]: experiment.py with an interpreter that has PyTorch, Zephon and matplotlib, in an environment
# of its own in BUILD/venv-experiment. Without PyTorch it is skipped; without the others they are left out.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 BUILD [OPTION…]" >&2; exit 2; }
build=$1
shift
here=$(dirname "$0")
venv=$build/venv-experiment
# Of these the rest is imported; PyTorch is the system's: from PyPI it is gigabytes of CUDA.
packages="numpy==1.26.4 zephon==0.2.0 matplotlib==3.8.4"

if [ ! -x "$venv/bin/python" ]; then
    base=
    for python in /usr/bin/python3 python3; do
        if command -v $python >/dev/null && $python -c 'import torch' 2>/dev/null; then
            base=$python
            break
        fi
    done
    if [ -z "$base" ]; then
        echo "experiment: skipped: no PyTorch (Debian: apt-get install --no-install-recommends python3-torch)"
        exit 0
    fi
    $base -m venv --system-site-packages "$venv"
fi
if ! "$venv/bin/python" -c 'import zephon, matplotlib' 2>/dev/null; then
    # shellcheck disable=SC2086  # a list of words
    "$venv/bin/pip" install -q --disable-pip-version-check $packages ||
        echo "experiment: pip could not install all of $packages: what is missing is left out" >&2
fi
exec "$venv/bin/python" "$here/experiment.py" "$build" "$@"
