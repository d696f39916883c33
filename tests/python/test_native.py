"""ctypes against the header: sizes, offsets, numbers and functions, as a C compiler sees them."""

import support    # noqa: F401  first

import ctypes
import os
import re
import subprocess

from lanekeeper import _native, errors

import lk

HEADER = support.ROOT / "client" / "c" / "lanekeeper.h"
STRUCTS = {"lanekeeper_error": _native.Error, "lanekeeper_options": _native.Options, "lanekeeper_info": _native.Info,
           "lanekeeper_row": _native.Row, "lanekeeper_part": _native.Part, "lanekeeper_batch": _native.Batch,
           "lanekeeper_training_options": _native.TrainingOptions, "lanekeeper_training": _native.Training,
           "lanekeeper_trace_part": _native.TracePart, "lanekeeper_trace": _native.Trace}
NUMBERS = {"LOOKAHEAD_MAX": "LOOKAHEAD_MAX", "STATE_MAX": "STATE_MAX", "CONSUMED": "CONSUMED",
           **{name: name for name in ("SHARED_AUTO", "SHARED_NEVER", "SHARED_ALWAYS", "U16", "U32", "I64", "I32")},
           **{name: name for name in dir(_native) if re.match(r"(LABELS|BORDERS|POSITIONS|CU_SEQLENS|SLICE)_", name)}}


def compiled(box, lines):
    """What a C program prints of expressions over the header."""
    prints = "\n".join(f'    printf("%llu\\n", (unsigned long long)({line}));' for line in lines)
    source = box.write("sizes.c", f'#include "{HEADER}"\n#include <stdio.h>\nint main(void)\n{{\n{prints}\n    return 0;\n}}\n')
    subprocess.run([os.environ.get("CC", "cc"), "-o", box.path / "sizes", source], check=True)
    said = subprocess.run([box.path / "sizes"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [int(line) for line in said.split()]


def structs(box):
    """Every struct of the header is declared with the same fields, in the same places."""
    declared = set(re.findall(r"^struct (lanekeeper_\w+) \{", HEADER.read_text(), re.M))
    lk.same(sorted(STRUCTS), sorted(declared), "every struct of the header is declared in Python")
    lines, mine = [], []
    for name, kind in STRUCTS.items():
        lines.append(f"sizeof(struct {name})")
        mine.append((name, ctypes.sizeof(kind)))
        for field, *_ in kind._fields_:
            lines += [f"__builtin_offsetof(struct {name}, {field})", f"sizeof(((struct {name} *)0)->{field})"]
            mine += [(f"{name}.{field} at", getattr(kind, field).offset), (f"{name}.{field} size", getattr(kind, field).size)]
    lk.same(mine, [(name, size) for (name, _), size in zip(mine, compiled(box, lines))], "their sizes and offsets")
    for name, kind in STRUCTS.items():
        body = re.search(rf"^struct {name} \{{.*?^\}};", HEADER.read_text(), re.M | re.S).group(0)
        count = len(re.findall(r";", re.sub(r"/\*.*?\*/", "", body, flags=re.S))) - 1
        commas = len(re.findall(r"^\s*(?:const )?\w+ \w+(?:, \w+)+;", body, re.M))
        lk.check(count + commas == len(kind._fields_), f"struct {name}: no field is left out", (count, commas, kind._fields_))


def numbers(box):
    lines = [f"LANEKEEPER_{name}" for name in NUMBERS.values()] + [f"LANEKEEPER_{code.name}" for code in errors.Code]
    mine = [getattr(_native, name) for name in NUMBERS] + [int(code) for code in errors.Code]
    lk.same(mine, compiled(box, lines), f"{len(lines)} numbers are the header's")
    names = [_native.lib.lanekeeper_code_name(code).decode() for code in errors.Code]
    lk.same([code.name for code in errors.Code], names, "codes have the library's names")
    kinds = [errors.error_of(code, "x").code for code in errors.Code if code != 0]
    lk.same(kinds, [code for code in errors.Code if code != 0], "every code has an exception of its own")


def functions(box):
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    declared = sorted(re.findall(r"LK_API\s[^;()]*?\b(lanekeeper_\w+)\(([^;]*?)\)\s*;", text, re.S))
    lk.same(sorted(_native._PROTOTYPES), [name for name, _ in declared], "every function of the header is declared")
    counts = {name: 0 if arguments.strip() == "void" else arguments.count(",") + 1 for name, arguments in declared}
    lk.same({name: len(arguments) for name, (_, arguments) in _native._PROTOTYPES.items()}, counts,
            "with as many arguments")


if __name__ == "__main__":
    support.main([structs, numbers, functions])
