#!/bin/sh
# run.sh BUILD_DIR: the tests of the adapters with the real frameworks, which are installed from PyPI into
# BUILD_DIR/venv-frameworks. One that cannot be installed has its test skipped, with a word.
set -u
build=$1
here=tests/python/frameworks
home=$build/venv-frameworks
log=$build/test-logs/venv-frameworks.log
mkdir -p "$build/test-logs"
if ! cmp -s "$here/requirements.txt" "$home/requirements.txt"; then
    python3 -m venv "$home" || exit 1
    grep -v '^#' "$here/requirements.txt" | {
        all=yes
        while read -r packages; do
            # shellcheck disable=SC2086 - several packages
            "$home/bin/pip" install --disable-pip-version-check --no-cache-dir $packages >>"$log" 2>&1 ||
                { all=no && echo "could not install $packages: $(tail -n 1 "$log")"; }
        done
        # What is not there is tried again the next time.
        [ "$all" = no ] || cp "$here/requirements.txt" "$home/requirements.txt"
    }
fi
failed=0 passed=0 skipped=0
for t in "$here"/test_*.py; do
    echo "== $t"
    "$home/bin/python" "$t" "$build"
    case $? in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
