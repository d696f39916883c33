#!/bin/sh
# deps.sh [build|demo|check|fuzz|valgrind|analyze|experiment|ci]: installs the Debian packages that building (build), the
# demo, all tests (check), fuzzing, memcheck, static analysis, the experiment and continuous integration need, if one is
# missing. Says what to install where it may not.
set -eu
level=${1:-check}

library() { # package, of headers
    dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed || missing="$missing $1"
}
tool() { # command, package
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
python() { # modules, package
    { command -v python3 && python3 -c "import $1"; } >/dev/null 2>&1 || missing="$missing $2"
}

case $level in
build | demo | check | fuzz | valgrind | analyze | experiment | ci) ;;
*) echo "usage: $0 [build|demo|check|fuzz|valgrind|analyze|experiment|ci]" >&2; exit 2 ;;
esac
if ! command -v dpkg-query >/dev/null; then
    echo "deps.sh: this is no Debian: install gcc, make, pkg-config, nng, protobuf-c, zstd, xxHash, libyaml," \
        "zlib, PCRE2, Check, Python 3 with venv, zstd and npm by hand" >&2
    exit 0
fi
missing=
tool "${CC:-gcc}" gcc
tool make make
tool ar binutils
tool pkg-config pkg-config
tool protoc-c protobuf-c-compiler
for package in libc6-dev libnng-dev libprotobuf-c-dev libzstd-dev libxxhash-dev libyaml-dev zlib1g-dev libpcre2-dev; do
    library $package
done
if [ "$level" != build ]; then
    tool python3 python3
    tool zstd zstd
    python pip python3-pip
fi
if [ "$level" = fuzz ] || [ "$level" = ci ]; then
    tool clang clang
fi
if [ "$level" = fuzz ]; then # libFuzzer and the sanitizers, which clang's package only recommends
    [ -e "$(clang -print-file-name="libclang_rt.fuzzer-$(uname -m).a" 2>/dev/null)" ] || missing="$missing libclang-rt-dev"
fi
if [ "$level" = analyze ]; then
    tool clang-tidy clang-tidy
fi
if [ "$level" = valgrind ]; then
    tool valgrind valgrind
    library libc6-dbg # memcheck replaces functions of the C library, which it finds by these symbols
    library check
fi
if [ "$level" = check ] || [ "$level" = ci ]; then
    library check
    python "venv, ensurepip" python3-venv
    library python3-numpy
    tool npm npm
fi
if [ "$level" = experiment ]; then # the reference BLAS, which PyTorch's package is content with, is several times slower
    library python3-venv
    library python3-torch
    library libopenblas0-pthread
fi
# The demo's text comes from packages that are downloaded, which asks for lists of them.
if [ -z "$missing" ] && { [ "$level" = build ] || apt-cache show perl-doc >/dev/null 2>&1; }; then
    exit 0
fi

set -f
# shellcheck disable=SC2086  # a list of words
set -- $missing
if [ "$(id -u)" -eq 0 ]; then
    root=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    root=sudo
else
    echo "deps.sh: as root, please: apt-get update && apt-get install $*" >&2
    exit 1
fi
[ $# -eq 0 ] || echo "installing $*"
$root apt-get -q update >/dev/null
[ $# -eq 0 ] || $root env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "$@" >/dev/null
