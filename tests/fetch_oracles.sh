#!/bin/sh
# fetch_oracles.sh DEST: a Python environment in DEST with the reference libraries that tests compare
# with. Does nothing when it is there.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 DEST" >&2; exit 2; }
if "$1/bin/python" -c 'import numpy, tiktoken, tokenizers' 2>/dev/null; then
    exit 0
fi
python3 -m venv "$1"
"$1/bin/pip" install -q --disable-pip-version-check tokenizers tiktoken numpy
"$1/bin/python" -c 'import numpy, tiktoken, tokenizers'
