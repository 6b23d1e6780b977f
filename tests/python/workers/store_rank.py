"""Two ranks that meet through an object with set and get: here, files in a folder. argv: folder."""

import json
import os
import pathlib
import sys

import ferrule
import numpy


class FolderStore:
    """The least that a store needs: set, and a get that says None for a key that is not there."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def _path(self, key):
        return self.folder / key.encode().hex()

    def set(self, key, value):
        fresh = self._path(key).with_suffix(f".{os.getpid()}")
        fresh.write_bytes(value)
        fresh.rename(self._path(key))

    def get(self, key):
        path = self._path(key)
        return path.read_bytes() if path.exists() else None


rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
with ferrule.Communicator.from_store(FolderStore(sys.argv[1]), rank, size, "test", timeout=40) as comm:
    total = comm.all_reduce(numpy.full(10, rank + 1.0))
print(json.dumps({"rank": comm.rank, "sum": float(total[0])}))
