"""One rank from the launcher's variables: reduces, and prints what it saw. argv: transport."""

import json
import sys

import ferrule
import numpy

with ferrule.Communicator.from_env(transport=sys.argv[1], timeout=40) as comm:
    values = numpy.arange(100_000, dtype=numpy.float32) % 7 + comm.rank
    exact = comm.all_reduce(values.copy())
    residual = ferrule.Residual(len(values))
    lossy = comm.all_reduce(values.copy(), op="avg", codec="int8", residual=residual)
    report = {
        "rank": comm.rank,
        "size": comm.size,
        "transport": comm.transport,
        "exact": float(exact.sum()),
        "lossy": lossy.tobytes().hex()[:64],
        "mean": float(lossy.mean()),
    }
print(json.dumps(report))
