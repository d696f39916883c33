#!/bin/bash
# install.sh BUILD: what `make install` puts down is what a user's program needs: found by pkg-config,
# compiled as C and as C++, linked to the shared object by its name, and to the archive.
set -eu
build=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "FAIL: $*" >&2
    exit 1
}

${MAKE:-make} --no-print-directory -s -o all BUILD="$build" install DESTDIR="$dir" PREFIX=/usr >"$dir/out" || fail "make install"
root=$dir/usr
for program in lanekeeper lanekeeperd lanekeeper-worker; do
    "$root/bin/$program" --help >"$dir/out" 2>&1 || fail "$program --help"
done
for file in man/man1/lanekeeper.1 man/man5/lanekeeper.yaml.5 man/man8/lanekeeperd.8 man/man8/lanekeeper-worker.8 zsh/site-functions/_lanekeeper \
    bash-completion/completions/lanekeeper bash-completion/completions/lanekeeperd \
    fish/vendor_completions.d/lanekeeper.fish fish/vendor_completions.d/lanekeeperd.fish; do
    [ -s "$root/share/$file" ] || fail "share/$file is not there, or empty"
done

cat >"$dir/user.c" <<'CODE'
#include <lanekeeper.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    struct lanekeeper_options options;
    struct lanekeeper_error error;
    struct lanekeeper *lk = NULL;
    lanekeeper_options_init(&options);
    options.address = "ipc:///nonexistent/lanekeeper.sock";
    options.timeout_ms = 200;
    enum lanekeeper_code code = lanekeeper_connect(&options, &lk, &error);
    puts(lanekeeper_code_name(code));
    return code == LANEKEEPER_UNAVAILABLE && strstr(error.text, "nonexistent") != NULL ? 0 : 1;
}
CODE
export PKG_CONFIG_PATH=$root/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dir
[ "$(pkg-config --modversion lanekeeper)" != "" ] || fail "pkg-config finds no version"
cc=${CC:-gcc}
# shellcheck disable=SC2046  # lists of words
{
    $cc -Wall -Wextra -Werror -o "$dir/shared" "$dir/user.c" $(pkg-config --cflags --libs lanekeeper)
    # What the page shows is a program as it stands.
    awk '/^```c$/ {n++; on = n == 1; next} /^```$/ {on = 0} on' client/c/README.md >"$dir/trainer.c"
    $cc -Wall -Wextra -Werror "$dir/trainer.c" $(pkg-config --cflags --libs lanekeeper) -o "$dir/trainer" ||
        fail "the trainer of client/c/README.md"
    cp "$dir/user.c" "$dir/user.cc"
    if command -v g++ >/dev/null; then
        g++ -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags lanekeeper) "$dir/user.cc"
    fi
    $cc -o "$dir/static" "$dir/user.c" $(pkg-config --cflags lanekeeper) "$root/lib/liblanekeeper.a" \
        $(pkg-config --static --libs lanekeeper | sed 's/-llanekeeper//')
}
readelf -d "$dir/shared" | grep -q 'NEEDED.*\[liblanekeeper.so.0\]' || fail "the program does not ask for liblanekeeper.so.0"
LD_LIBRARY_PATH=$root/lib "$dir/shared" >"$dir/out" || fail "linked to the shared object: $(cat "$dir/out")"
"$dir/static" >"$dir/out" || fail "linked to the archive: $(cat "$dir/out")"
foreign=$(nm -D --defined-only "$root/lib/liblanekeeper.so" | awk '$2 != "A" && $3 !~ /^lanekeeper_/ {print $3}')
[ -z "$foreign" ] || fail "the shared object exports $foreign"
echo "installed, found, compiled and linked"
