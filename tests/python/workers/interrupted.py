"""Waits for a peer that never comes, and says when Ctrl-C has ended that. argv: what to wait in."""

import sys
import time

import ferrule
import numpy

comms = ferrule.Communicator.local(2, timeout=300)
values = numpy.ones(10, numpy.float32)
print("waiting", flush=True)
try:
    if sys.argv[1] == "all_reduce":
        comms[0].all_reduce(values)
    elif sys.argv[1] == "work":
        comms[0].all_reduce_async(values).wait()
    else:
        ferrule.Communicator.connect(0, 2, f"tcp://127.0.0.1:{sys.argv[2]}", timeout=300)
    print("returned", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
for comm in comms:
    comm.abort()
    comm.close()
