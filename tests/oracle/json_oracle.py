#!/usr/bin/env python3
"""json_oracle.py FIELDS_MAIN [CASES [SEED]]: rows and fields as op/fields reads them, against Python's
json, on damaged and undamaged documents. Both must refuse the same rows and find the same values.

Python's reader is laxer in three things, which are made strict here: NaN and Infinity, surrogates that
are no pair, and a byte-order mark."""
import json
import random
import subprocess
import sys

SCALARS = [1, -0.5, 1e10, "a", "\u00e9\n", "\U0001f600", None, True, False, "", '"\\/', "\u2028\x7f"]
DAMAGE = list(b'{}[]:,"\\ue0919.-+tfn \t\r\n\x00\x1f\x80\xc3\xa9\xed\xa0\xf0\x9f\xf4\xef\xbb\xbfabcd8DFx/')
PATHS = ["a", "b", "b.a", "b.b", "a.a"]


class Refused(Exception):
    pass


def refuse(_):
    raise Refused


def check(value):
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Refused from None
    elif isinstance(value, list):
        for element in value:
            check(element)


def check_pairs(pairs):
    for key, value in pairs:
        check(key)
        check(value)
    return dict(pairs)


def number(text):
    return ("number", text)


def expected(row, path):
    try:
        text = row.decode("utf-8")
        if text.startswith("\ufeff"):
            return "bad"
        value = json.loads(text, parse_constant=refuse, parse_float=number, parse_int=number,
                           object_pairs_hook=check_pairs)
        check(value)
    except (Refused, ValueError, RecursionError):
        return "bad"
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            return "none"
        value = value[key]
    for literal, answer in ((None, b"null"), (False, b"false"), (True, b"true")):
        if value is literal:
            return "%d %s" % ([b"null", b"false", b"true"].index(answer), answer.hex())
    if isinstance(value, tuple):
        return "3 " + value[1].encode().hex()
    if isinstance(value, str):
        return "4 " + value.encode().hex()
    return "5 " if isinstance(value, list) else "6 "


def document(rng, depth=0):
    if depth > 3 or rng.random() < 0.45:
        return rng.choice(SCALARS) if rng.random() < 0.9 else "x" * rng.randrange(50)
    if rng.random() < 0.3:
        return [document(rng, depth + 1) for _ in range(rng.randrange(3))]
    return {rng.choice("abc"): document(rng, depth + 1) for _ in range(rng.randrange(4))}


def damage(rng, row):
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        at, kind = rng.randrange(len(row) + 1), rng.random()
        if kind < 0.4:
            row[at:at] = bytes([rng.choice(DAMAGE)])
        elif kind < 0.7:
            del row[at:at + 1]
        elif at < len(row):
            row[at] = rng.choice(DAMAGE)
    return bytes(row)


def case(rng):
    value = document(rng)
    if rng.random() < 0.8:
        value = {"a": document(rng), "b": {"a": document(rng), "b": document(rng)}, "c": value}
    row = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode()
    if rng.random() < 0.3:
        row = row.replace(rng.choice([b'"b"', b'"c"']), b'"a"', 1)  # duplicate keys
    return rng.choice(PATHS), damage(rng, bytearray(row))


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 50000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    cases = [case(rng) for _ in range(count)]
    lines = "".join("%s %s\n" % (path, row.hex() or "-") for path, row in cases)
    done = subprocess.run([sys.argv[1]], input=lines, capture_output=True, text=True, check=True)
    answers = done.stdout.split("\n")[:-1]
    if len(answers) != count:
        sys.exit("json_oracle: %d answers to %d questions" % (len(answers), count))
    valid = different = 0
    for (path, row), got in zip(cases, answers):
        want = expected(row, path)
        valid += want != "bad"
        if got != want:
            different += 1
            print("json_oracle: %r, field %s: expected %s, found %s" % (row, path, want, got))
    if different or not count // 10 < valid < count:
        sys.exit("json_oracle: %d of %d differ (%d are valid)" % (different, count, valid))
    print("json_oracle: %d rows, %d of them valid: the same as Python's json" % (count, valid))


main()
