"""All-reduces of a Python program. The argument is the largest error of a large sum, relative to its magnitude."""
import sys
from array import array

from mpi4py import MPI

LARGE = 200_000


def values(rank):
    return array("f", ((rank * 31 + i * 7) % 23 - 11 for i in range(LARGE)))


def main():
    comm, tolerance = MPI.COMM_WORLD, float(sys.argv[1])
    expected = [sum(column) for column in zip(*(values(rank) for rank in range(comm.size)))]
    result = array("f", bytes(4 * LARGE))
    comm.Allreduce(values(comm.rank), result)
    assert max(abs(a - b) for a, b in zip(result, expected)) <= tolerance * 11 * comm.size
    comm.Allreduce(MPI.IN_PLACE, result)
    doubles = array("d", [float(comm.rank)] * LARGE)
    comm.Allreduce(MPI.IN_PLACE, doubles)
    assert set(doubles) == {comm.size * (comm.size - 1) / 2}
    assert comm.allreduce(comm.rank) == comm.size * (comm.size - 1) // 2
    if comm.rank == 0:
        print("mpi4py: ok")


main()
