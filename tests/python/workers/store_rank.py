"""Two ranks that meet through an object with set and get: here, files in a folder. argv: folder."""

import json
import os
import pathlib
import sys
import time

import ferrule
import numpy


class FolderStore:
    """get waits until the key exists, as the library asks of a store without check()."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def _path(self, key):
        return self.folder / key.encode().hex()

    def set(self, key, value):
        fresh = self._path(key).with_suffix(f".{os.getpid()}")
        fresh.write_bytes(value)
        fresh.rename(self._path(key))

    def get(self, key):
        while not self._path(key).exists():
            time.sleep(0.005)
        return self._path(key).read_bytes()


rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
with ferrule.Communicator.from_store(FolderStore(sys.argv[1]), rank, size, "test", timeout=40) as comm:
    total = comm.all_reduce(numpy.full(10, rank + 1.0))
print(json.dumps({"rank": comm.rank, "sum": float(total[0])}))
