#!/bin/sh
# fetch_oracles.sh DEST: a Python environment in DEST with the reference libraries that tests compare
# with. Does nothing when it is there. Zephon is tried once: not every machine's Python will do for it. Its
# tokenize() is transformers'.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 DEST" >&2; exit 2; }
zephon() {
    [ -e "$1/zephon-0.2.0-tried" ] || "$1/bin/pip" install -q --disable-pip-version-check zephon==0.2.0 transformers ||
        echo "$0: no zephon: what is compared with it will be skipped" >&2
    touch "$1/zephon-0.2.0-tried"
}
if "$1/bin/python" -c 'import numpy, tiktoken, tokenizers' 2>/dev/null; then
    zephon "$1"
    exit 0
fi
python3 -m venv "$1"
"$1/bin/pip" install -q --disable-pip-version-check tokenizers tiktoken numpy
"$1/bin/python" -c 'import numpy, tiktoken, tokenizers'
zephon "$1"
