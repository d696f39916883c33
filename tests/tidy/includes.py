"""Who may include whom: reads every #include of server/, client/ and proto/ and says which point the
wrong way. And which files of the pure part know of floating point.

    includes.py [ROOT]       exit status 1 when one does
    includes.py --self-test  on a small made-up tree with one include of every forbidden kind

A layer is a folder under server/. Generated message headers (proto/*.pb-c.h) count as proto.
"""

import pathlib
import re
import sys
import tempfile

MAY = {
    "base": set(),
    "seq": {"base"},
    "core": {"base", "seq"},
    "op": {"base"},
    "format": {"base"},
    "store": {"base"},
    "config": {"base", "core"},
    "worker": {"base", "op", "format", "store", "proto"},
    "rpc": {"base", "core", "proto"},
    "host": {"base", "seq", "core", "op", "format", "store", "config", "rpc", "proto"},
    "proto": {"base"},
}
LAYERS = set(MAY) - {"proto"}
PURE = {"base", "seq", "core"}
# What of the C library the pure part may know. No clock, no file, no thread, no locale.
PURE_SYSTEM = {"assert.h", "limits.h", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "stdio.h",
               "stdlib.h", "string.h", "xxhash.h", "xxh_x86dispatch.h", "emmintrin.h",
               "immintrin.h"}

# What is no code is passed over: comments, texts and characters.
FLOATING = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?P<word>\b(?:float|double|_Float\w+)\b|\b\d+\.\d*|\B\.\d+)""", re.S)

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)


def layer_of(path):
    """The layer of a file, from its path below the root."""
    parts = path.parts
    if parts[0] == "server":
        return parts[1] if len(parts) > 2 else "main"
    if parts[0] == "client":
        return "/".join(parts[:2])
    return parts[0]


def target_of(name, file, root):
    """The layer of an included name; None when it is none of the project's."""
    first = name.split("/")[0]
    if first in LAYERS and "/" in name:
        return first
    if first in ("proto", "client", "tests", "server") and "/" in name:
        return layer_of(pathlib.PurePath(name))
    if (root / file.parent / name).exists():
        return layer_of(file)
    return None


def allowed(source, target):
    if source == target or target is None:
        return True
    if source == "main":
        return target in LAYERS | {"proto"}
    if source == "client/c":
        return target == "proto"
    if source == "client/cli":          # the offline tools: index, config, digest
        return target in LAYERS - {"worker", "rpc"} | {"client/c", "proto"}
    if source.startswith("client"):
        return target == "client/c"
    return target in MAY.get(source, set())


def wrong_includes(root):
    """(file, included name, why), and how many includes there were."""
    wrong, seen = [], 0
    files = [f for top in ("server", "client", "proto") for f in (root / top).rglob("*.[ch]")]
    for path in sorted(files):
        file = path.relative_to(root)
        source = layer_of(file)
        if source not in MAY and source != "main" and not source.startswith("client"):
            wrong.append((file, "", f"is in no known layer ({source})"))
        text = path.read_text(errors="replace")
        if source in PURE:
            wrong += [(file, "", f"integers decide, not {m['word']}") for m in FLOATING.finditer(text) if m["word"]]
        for quoted, system in INCLUDE.findall(text):
            seen += 1
            name = quoted or system
            target = target_of(name, file, root)
            if not allowed(source, target):
                wrong.append((file, name, f"{source} must not know {target}"))
            if source in PURE and system and system not in PURE_SYSTEM:
                wrong.append((file, name, f"{source} is pure: <{system}> is not on its list"))
    return wrong, seen


MADE_UP = {
    "server/base/a.c": ('#include "core/lane.h"\n', 1),
    "server/base/c.c": ("/* double */ const char *s = \"\\\"1.5 float\"; int i = 'd'; // 2.5\n", 0),
    "server/seq/b.c": ("static int f(void)\n{\n    return (int)(3 * 0.5);\n}\n", 1),
    "server/core/b.h": ("double share; /* of one */\n", 1),
    "server/op/b.c": ("double ok;\n", 0),
    "server/base/b.c": ('#include "base/mem.h"\n#include <string.h>\n', 0),
    "server/seq/a.c": ('#include "base/mem.h"\n#  include <time.h>\n', 1),
    "server/core/a.c": ('#include "seq/seq.h"\n#include <pthread.h>\n', 1),
    "server/op/tokenise/a.c": ('#include "op/measure.h"\n#include "format/format.h"\n', 1),
    "server/format/a.c": ('#include "store/file.h"\n', 1),
    "server/rpc/a.c": ('#include "core/lane.h"\n#include "proto/x.pb-c.h"\n#include "host/loop.h"\n', 1),
    "server/host/a.c": ('#include "rpc/server.h"\n#include "worker/worker.h"\n', 1),
    "server/main.c": ('#include "host/loop.h"\n#include "config/config.h"\n', 0),
    "server/odd/a.c": ("", 1),
    "client/c/a.c": ('#include "base/mem.h"\n#include "proto/x.pb-c.h"\n', 1),
    "client/cli/a.c": ('#include "core/lane.h"\n#include "client/c/lanekeeper.h"\n', 0),
    "client/cli/b.c": ('#include "worker/worker.h"\n', 1),
}


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, (text, _) in MADE_UP.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = [str(file) for file, _, _ in wrong_includes(root)[0]]
    bad = [name for name, (_, n) in MADE_UP.items() if found.count(name) != n]
    for name in bad:
        print(f"includes.py: made-up {name}: {found.count(name)} found, {MADE_UP[name][1]} expected")
    return 1 if bad else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    wrong, seen = wrong_includes(root)
    for file, name, why in wrong:
        print(f"{file}: #include {name}: {why}" if name else f"{file}: {why}")
    if seen == 0:
        print(f"includes.py: {root} has no includes at all")
    print(f"includes: {seen} read, {len(wrong)} point the wrong way")
    return 1 if wrong or seen == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
