"""to_parquet.py DATA OUT: the datasets' JSONL shards as Parquet, for peers that read it faster."""
import json
import pathlib
import sys

import pyarrow
import pyarrow.parquet

data, out = (pathlib.Path(path) for path in sys.argv[1:])
for shard in sorted(data.glob("*/*.jsonl")):
    rows = [json.loads(line) for line in shard.open(encoding="utf-8")]
    to = out / shard.parent.name / (shard.stem + ".parquet")
    to.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), to)
