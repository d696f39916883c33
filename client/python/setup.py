"""Builds the C library and the programs with the repository's Makefile, and packs them with the package.

In a checkout the sources are two folders up; an sdist carries them in _source. The programs are linked to look for
libraries beside themselves, and what they need beyond the C library's own is packed, too: a wheel runs on any machine
with a glibc as new as the one it was built with.

LANEKEEPER_BUILD names a folder that `make` built in: its objects are taken, and only linked anew.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:    # before setuptools 70
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
PACKED = HERE / "_source"
NEEDED = ["Makefile", "LICENSE", "server", "client/c", "client/cli", "proto", "deploy/deps.sh"]
PRODUCTS = ["liblanekeeper.so", "lanekeeperd", "lanekeeper", "lanekeeper-worker"]
# Of the system's own, which are as they must be on every machine.
SYSTEM = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "libgcc_s.so")


def source():
    for root in (PACKED, HERE.parent.parent):
        if (root / "Makefile").exists() and (root / "client/c/lanekeeper.h").exists():
            return root
    sys.exit("lanekeeper: no C sources: neither in a checkout of the repository nor in an sdist")


def take_objects(build, to):
    """What is compiled in @build, as links; but what is linked is linked anew."""
    for name in ("server", "client", "proto", "lib"):
        if (build / name).is_dir():
            shutil.copytree(build / name, to / name, copy_function=link)


def link(source, to):
    try:
        os.link(source, to)
    except OSError:
        shutil.copy2(source, to)


def make(root, build):
    """Builds the products in @build."""
    command = [os.environ.get("MAKE", "make"), "-C", str(root), f"-j{os.cpu_count() or 1}", f"BUILD={build}", "WERROR=",
               "LDFLAGS=-Wl,--disable-new-dtags,-rpath,\\$$ORIGIN -Wl,--as-needed -pthread",
               *(str(build / name) for name in PRODUCTS)]
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        print(done.stdout[-6000:], file=sys.stderr)
        sys.exit("lanekeeper: the C library could not be built; on Debian, `deploy/deps.sh build` installs what it needs")


def libraries(program):
    """The shared objects that @program is linked with and the system does not bring along."""
    said = subprocess.run(["ldd", str(program)], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = {}
    for line in said.splitlines():
        words = line.split()
        if "=>" in words and not words[0].startswith(SYSTEM):
            if words[2] == "not":
                sys.exit(f"lanekeeper: {program} needs {words[0]}, which is not found")
            found[words[0]] = words[2]
    return found


def install(build, to):
    to.mkdir(parents=True, exist_ok=True)
    for name in PRODUCTS:
        shutil.copy2(build / name, to / name)
        subprocess.run(["strip", "--strip-unneeded", str(to / name)], stderr=subprocess.DEVNULL)
        for soname, path in libraries(build / name).items():
            shutil.copy2(path, to / soname)


class BuildWithPrograms(build_py):
    def run(self):
        super().run()
        if self.editable_mode:
            to = HERE / "lanekeeper" / "_bin"
        else:
            to = pathlib.Path(self.build_lib).resolve() / "lanekeeper" / "_bin"
        shutil.rmtree(to, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="lanekeeper-build-") as build:
            build = pathlib.Path(build)
            if os.environ.get("LANEKEEPER_BUILD"):
                take_objects(pathlib.Path(os.environ["LANEKEEPER_BUILD"]).resolve(), build)
            make(source(), build)
            install(build, to)


class WithSources(sdist):
    def run(self):
        shutil.rmtree(PACKED, ignore_errors=True)
        root = source()
        try:
            for name in NEEDED:
                (PACKED / name).parent.mkdir(parents=True, exist_ok=True)
                if (root / name).is_dir():
                    shutil.copytree(root / name, PACKED / name, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy2(root / name, PACKED / name)
            super().run()
        finally:
            shutil.rmtree(PACKED, ignore_errors=True)

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, [f for f in files if not f.startswith("_source")])
        shutil.copytree(PACKED, pathlib.Path(base_dir) / "_source", dirs_exist_ok=True)


class PlatformWheel(bdist_wheel):
    """For any Python 3, and this platform alone."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithBinaries(Distribution):
    def has_ext_modules(self):
        return True    # so that installing goes where platform files go


setup(cmdclass={"build_py": BuildWithPrograms, "sdist": WithSources, "bdist_wheel": PlatformWheel}, distclass=WithBinaries)
