"""tests/chaos/shim.c from here: which calls a program made, and one of them failing."""

import errno
import os
import struct

import lk

SLOT = struct.Struct("24sQQ")
SLOTS = 256
FIRST = 192    # of the slots that tell what became of each fault
SHORT = "short"
STOP = "stop"    # the process is stopped there (lk.stopped tells), and makes the call when it goes on
FOR_GOOD = 1 << 40    # as many times as it is called


class Shim:
    """Acts in the processes of one program (the name of its file) that are started with .environment(): with a fault,
    or with several, (kind, n, what, times)."""

    def __init__(self, box, program, kind=None, n=1, what=None, times=1, clock=None, faults=()):
        self.path = box.path / f"shim-{len(list(box.path.glob('shim-*')))}"
        self.path.write_bytes(bytes(SLOT.size * SLOTS))
        self.box, self.program, self.clock = box, program, clock
        self.faults = list(faults) or ([(kind, n, what, times)] if kind is not None else [])
        self.fault = ";".join(f"{kind}:{n}:{times}:{what if what in (SHORT, STOP) else getattr(errno, what)}"
                              for kind, n, what, times in self.faults)

    def environment(self):
        library = self.box.build / "tests" / "chaos" / "shim.so"
        if not library.exists():
            raise lk.Failure(f"{library} is not built")
        settings = {"LD_PRELOAD": str(library), "LK_SHIM_IN": self.program, "LK_SHIM_FILE": str(self.path)}
        if self.fault:
            settings["LK_SHIM_FAULT"] = self.fault
        if self.clock:
            settings["LK_SHIM_CLOCK"] = self.clock
        if self.box.sanitized:
            settings["ASAN_OPTIONS"] = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        return settings

    def prefix(self):
        """Before a command, where no environment can be given."""
        return ["env", *(f"{k}={v}" for k, v in self.environment().items())]

    def _slots(self):
        data = self.path.read_bytes()
        return [SLOT.unpack_from(data, i * SLOT.size) for i in range(SLOTS)]

    def calls(self):
        """{kind: calls made}."""
        return {name.rstrip(b"\0").decode(): calls for name, calls, _ in self._slots()[:FIRST] if calls}

    def struck_each(self):
        """Those of its faults that came about, and those that could not: the call was made, and never fails so there."""
        slots = self._slots()[FIRST:]
        return ([fault for fault, (_, _, struck) in zip(self.faults, slots) if struck],
                [fault for fault, (_, calls, struck) in zip(self.faults, slots) if calls and not struck])

    def struck(self):
        return sum(s for _, _, s in self._slots())
