"""Lanekeeper: training batches from a daemon that tokenises, mixes, shuffles and packs while the model trains.

    import lanekeeper
    with lanekeeper.Stream("lanekeeper.yaml") as stream:    # or "ipc:///run/lanekeeper.sock", "tcp://host:port"
        for batch in stream:
            step = batch.training().torch()                 # input_ids, labels, position_ids, cu_seqlens, …
            loss = train(step["input_ids"], step["labels"])

`Stream` is one rank of a stream; `Batch` its rows of a step, as NumPy views of the daemon's memory;
`Stream.state_dict` what to put into a checkpoint. `lanekeeper.parallel` has the data-parallel rank of bigger
layouts, and every error is a `LanekeeperError`.
"""

from . import parallel
from .batch import Batch, add_digests
from .daemon import IndexMissing, PrivateDaemon, index
from .errors import (Aborted, AlreadyExists, Cancelled, Code, DataLoss, DeadlineExceeded, FailedPrecondition, Internal,
                     InvalidArgument, LanekeeperError, NotFound, OutOfRange, PermissionDenied, ResourceExhausted,
                     Unauthenticated, Unavailable, Unimplemented, Unknown)
from .stream import Info, Stream, TracePart
from .training import Training, pin

__version__ = "0.1.0"

__all__ = ["Aborted", "AlreadyExists", "Batch", "Cancelled", "Code", "DataLoss", "DeadlineExceeded",
           "FailedPrecondition", "IndexMissing", "Info", "Internal", "InvalidArgument", "LanekeeperError", "NotFound",
           "OutOfRange", "PermissionDenied", "PrivateDaemon", "ResourceExhausted", "Stream", "TracePart", "Training",
           "Unauthenticated", "Unavailable", "Unimplemented", "Unknown", "add_digests", "index", "parallel", "pin"]
