#!/usr/bin/env python3
"""corpus.py OUT [--packages DIR]: the data of the demo, made of text that Debian ships.

Three datasets of JSONL shards under OUT: docs (Python's and Perl's documentation), man (manual pages
as roff) and code (Python's and Perl's libraries). The packages are downloaded and unpacked into DIR,
OUT/../packages by default, not installed: an installed system may lack /usr/share/doc and man.
The same packages give the same bytes. What is there already is kept; remove OUT to make it again.
"""
import argparse
import gzip
import json
import pathlib
import re
import shutil
import subprocess
import sys

SHARD_BYTES = 3 << 20  # of rows, before compression
LEAST_BYTES = 20 << 20  # of text, all datasets together

# Packages whose names carry a version are found through one that depends on them.
PACKAGES = {
    "python-doc": ("python3-doc", r"python3\.\d+-doc"),
    "python": ("libpython3-stdlib", r"libpython3\.\d+-stdlib"),
    "perl": ("perl", r"perl-modules-[\d.]+"),
    "perl-doc": ("perl-doc", None),
    "manpages": ("manpages", None),
    "manpages-dev": ("manpages-dev", None),
}
# Dataset, shard names, package, files, and how the shards are compressed in turn.
PARTS = [
    ("docs", "python", "python-doc", r".*/_sources/.*\.txt", ["", ".gz"]),
    ("docs", "perl", "perl-doc", r".*\.pod", ["", ".zst"]),
    ("man", "manpages", "manpages", r"usr/share/man/man\d/.*\.gz", [".gz"]),
    ("man", "manpages-dev", "manpages-dev", r"usr/share/man/man\d/.*\.gz", [".zst", ""]),
    ("code", "python", "python", r".*\.py", [""]),
    ("code", "perl", "perl", r"(?!.*/unicore/).*\.(pm|pl)", [".zst", ".gz"]),
]


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"corpus.py: {' '.join(command)} failed:\n{done.stderr.strip()}\n"
                 "The corpus is made of Debian packages; `apt-get update` may be needed first.")
    return done.stdout


def resolve(package, pattern):
    if pattern is None:
        return package
    found = re.findall(rf"^\s*\|?(?:Pre)?Depends: ({pattern})$", run("apt-cache", "depends", package), re.M)
    if not found:
        sys.exit(f"corpus.py: {package} depends on nothing like {pattern}")
    return sorted(found)[-1]


def unpack(packages, name):
    """The folder with the files of a package of PACKAGES."""
    folder = packages / name
    if folder.exists():
        return folder
    download = packages / (name + ".download")
    shutil.rmtree(download, ignore_errors=True)
    download.mkdir(parents=True)
    run("apt-get", "-q", "download", resolve(*PACKAGES[name]), cwd=download)
    archive, = download.glob("*.deb")
    run("dpkg-deb", "-x", str(archive), str(download / "files"))
    (download / "files" / "PACKAGE").write_text(archive.name + "\n")
    (download / "files").rename(folder)
    shutil.rmtree(download)
    return folder


def text_of(path):
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def row_of(dataset, name, text):
    if dataset == "code":
        language = "python" if name.endswith(".py") else "perl"
        return {"path": name, "body": {"language": language, "content": text}}
    return {"name": name, "text": text}


def sections(name, text):
    """Perl's manual is cut at its chapters, so that short documents stand beside very long ones."""
    if not name.endswith(".pod"):
        return [(name, text)]
    cut = [part for part in re.split(r"(?m)^(?==head1 )", text) if part.strip()]
    return [(f"{name}#{i}", part) for i, part in enumerate(cut)]


def documents(folder, pattern):
    files = [p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()]
    for path in sorted(files, key=lambda p: p.relative_to(folder).as_posix().encode()):
        name = path.relative_to(folder).as_posix()
        if re.fullmatch(pattern, name):
            yield from sections(name, text_of(path))


def write_shard(folder, name, lines, compression):
    data = b"".join(lines)
    path = folder / f"{name}.jsonl{compression}"
    if compression == ".gz":
        data = gzip.compress(data, 6, mtime=0)
    path.write_bytes(data)
    if compression == ".zst":
        run("zstd", "-q", "-3", "--no-progress", "-f", str(path), "-o", str(path) + ".tmp")
        pathlib.Path(str(path) + ".tmp").replace(path)


def write_part(folder, dataset, name, source, pattern, compressions):
    """(bytes of text, documents) of one part's shards."""
    lines, size, shard, total, rows = [], 0, 0, 0, 0

    def flush():
        nonlocal lines, size, shard
        if lines:
            write_shard(folder, f"{name}-{shard:02}", lines, compressions[shard % len(compressions)])
        lines, size, shard = [], 0, shard + 1

    for path, text in documents(source, pattern):
        line = (json.dumps(row_of(dataset, path, text), ensure_ascii=rows % 2 == 0) + "\n").encode()
        lines.append(line)
        size += len(line)
        total += len(text.encode())
        rows += 1
        if size >= SHARD_BYTES:
            flush()
    flush()
    return total, rows


def make(out, packages):
    total = {}
    for dataset, name, package, pattern, compressions in PARTS:
        folder = out / dataset
        folder.mkdir(parents=True, exist_ok=True)
        size, rows = write_part(folder, dataset, name, unpack(packages, package), pattern, compressions)
        if rows == 0:
            sys.exit(f"corpus.py: package {package} has no file like {pattern}")
        old = total.get(dataset, (0, 0))
        total[dataset] = (old[0] + size, old[1] + rows)
    for dataset, (size, rows) in total.items():
        print(f"{dataset:5} {rows:6} documents  {size / 1e6:6.1f} MB of text")
    if sum(size for size, _ in total.values()) < LEAST_BYTES:
        sys.exit(f"corpus.py: fewer than {LEAST_BYTES} bytes of text: have the packages changed?")
    used = [(packages / name / "PACKAGE").read_text() for name in sorted(PACKAGES)]
    (out / "SOURCES").write_text("".join(used))


def main():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out", type=pathlib.Path)
    arguments.add_argument("--packages", type=pathlib.Path)
    arguments = arguments.parse_args()
    out = arguments.out
    if (out / "SOURCES").exists():
        return
    building = out.with_name(out.name + ".part")
    shutil.rmtree(building, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    make(building, (arguments.packages or out.parent / "packages").resolve())
    building.rename(out)


if __name__ == "__main__":
    main()
