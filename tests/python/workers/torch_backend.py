"""One rank of test_torch_backend.py: every operation of torch.distributed over "ferrule". Imports no ferrule: torch finds it."""

import datetime
import json
import sys

import torch
import torch.distributed as dist


def check(name, got, expected):
    assert torch.equal(got, expected), f"{name}: {got} is not {expected}"


def full(rank, *shape, dtype=torch.float32):
    return torch.full(shape, rank + 1, dtype=dtype)


def reductions(rank, size):
    total = size * (size + 1) // 2
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.int16, torch.int64, torch.uint8, torch.complex64):
        tensor = full(rank, 3, 5, dtype=dtype)
        dist.all_reduce(tensor)
        check(f"all_reduce {dtype}", tensor, torch.full((3, 5), total, dtype=dtype))
    for op, value in ((dist.ReduceOp.MAX, size), (dist.ReduceOp.MIN, 1), (dist.ReduceOp.AVG, total / size)):
        tensor = full(rank, 7)
        dist.all_reduce(tensor, op)
        check(f"all_reduce {op}", tensor, torch.full((7,), value))
    for op, combine in ((dist.ReduceOp.BAND, int.__and__), (dist.ReduceOp.BOR, int.__or__), (dist.ReduceOp.BXOR, int.__xor__)):
        tensor = full(rank, 4, dtype=torch.int32)
        dist.all_reduce(tensor, op)
        expected = 1
        for other in range(1, size):
            expected = combine(expected, other + 1)
        check(f"all_reduce {op}", tensor, torch.full((4,), expected, dtype=torch.int32))
    flag = torch.tensor([rank == 0, True, False])
    dist.all_reduce(flag)
    check("all_reduce of bool", flag, torch.tensor([True, True, False]))
    strided = full(rank, 4, 6)[:, ::2]
    dist.all_reduce(strided)
    check("all_reduce of a strided tensor", strided, torch.full((4, 3), float(total)))
    for root in range(size):
        tensor = full(rank, 6)
        dist.reduce(tensor, root)
        if rank == root:
            check("reduce", tensor, torch.full((6,), float(total)))
    scalar, empty = torch.tensor(float(rank)), torch.empty(0)
    dist.all_reduce(scalar)
    dist.all_reduce(empty)
    check("all_reduce of a scalar", scalar, torch.tensor(float(sum(range(size)))))


def parts(rank, size):
    outputs = [torch.empty(r + 1, 2, dtype=torch.int16) for r in range(size)]
    dist.all_gather(outputs, full(rank, rank + 1, 2, dtype=torch.int16))
    for other, output in enumerate(outputs):
        check("all_gather", output, full(other, other + 1, 2, dtype=torch.int16))
    whole = torch.empty(size * 3, dtype=torch.bool)
    dist.all_gather_into_tensor(whole, torch.tensor([rank % 2 == 0, True, False]))
    check("all_gather_into_tensor", whole, torch.cat([torch.tensor([r % 2 == 0, True, False]) for r in range(size)]))
    part = torch.empty(4)
    dist.reduce_scatter_tensor(part, torch.arange(4.0 * size) + rank)
    check("reduce_scatter_tensor", part, size * (torch.arange(4.0) + 4 * rank) + sum(range(size)))
    uneven = torch.empty(rank + 1)
    dist.reduce_scatter(uneven, [full(rank, r + 1) for r in range(size)])
    check("reduce_scatter", uneven, torch.full((rank + 1,), float(size * (size + 1) // 2)))
    for root in range(size):
        gathered = [torch.empty(2, 2) for _ in range(size)] if rank == root else None
        dist.gather(full(rank, 2, 2), gathered, root)
        for other, output in enumerate(gathered or []):
            check("gather", output, full(other, 2, 2))
        mine = torch.empty(3)
        dist.scatter(mine, [full(r, 3) for r in range(size)] if rank == root else None, root)
        check("scatter", mine, full(rank, 3))
        tensor = full(rank, 5, dtype=torch.float16)
        dist.broadcast(tensor, root)
        check("broadcast", tensor, full(root, 5, dtype=torch.float16))


def exchanges(rank, size):
    output = torch.empty(size * 2)
    dist.all_to_all_single(output, torch.arange(2.0 * size) + 100 * rank)
    check("all_to_all_single", output, torch.cat([torch.arange(2.0) + 2 * rank + 100 * r for r in range(size)]))
    sent = [r + 1 for r in range(size)]
    uneven = torch.empty(size * (rank + 1), 2)
    dist.all_to_all_single(uneven, full(rank, sum(sent), 2), [rank + 1] * size, sent)
    check("all_to_all_single with sizes", uneven, torch.cat([full(r, rank + 1, 2) for r in range(size)]))
    lists = [torch.empty(r + 1) for r in range(size)]
    dist.all_to_all(lists, [full(rank, rank + 1) for _ in range(size)])
    for other, tensor in enumerate(lists):
        check("all_to_all", tensor, full(other, other + 1))


def transfers(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (3, 100000):
        got, mine = torch.empty(count), full(rank, count)
        if size == 2 or rank % 2 == 0:
            sent = dist.isend(mine, right, tag=4)
            dist.recv(got, left, tag=4)
            sent.wait()
        else:
            dist.recv(got, left, tag=4)
            dist.send(mine, right, tag=4)
        check("send and recv", got, full(left, count))
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, got.zero_(), left)])
        for work in works:
            work.wait()
        check("batch_isend_irecv", got, full(left, count))
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            got = torch.empty(4, dtype=torch.int64)
            source = dist.recv(got)
            check("recv from anybody", got, full(source, 4, dtype=torch.int64))
            seen.add(source)
        assert seen == set(range(1, size)), seen
    else:
        dist.send(full(rank, 4, dtype=torch.int64), 0)
    dist.barrier()


def objects(rank, size):
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank})
    assert [each["rank"] for each in gathered] == list(range(size)), gathered
    listed = [{"from": 1}, "two"] if rank == 1 else [None, None]
    dist.broadcast_object_list(listed, 1)
    assert listed == [{"from": 1}, "two"], listed
    one = [None]
    dist.scatter_object_list(one, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
    assert one == [f"for {rank}"], one


def groups(rank, size):
    pair = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        tensor = full(rank, 3)
        dist.all_reduce(tensor, group=pair)
        check("all_reduce in a group", tensor, torch.full((3,), 1.0 + size))
        dist.broadcast(tensor, size - 1, group=pair)
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    if hasattr(dist, "split_group") and hasattr(dist.distributed_c10d._get_default_group(), "split_group"):
        half = dist.split_group(split_ranks=halves)
        mine = halves[0] if rank < size // 2 else halves[1]
        tensor = full(rank, 2)
        dist.all_reduce(tensor, group=half)
        check("all_reduce in a split", tensor, torch.full((2,), float(sum(r + 1 for r in mine))))
    if size == 4:
        mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard"))
        tensor = full(rank, 2)
        dist.all_reduce(tensor, group=mesh.get_group("shard"))
        check("all_reduce in a mesh", tensor, torch.full((2,), 3.0 if rank < 2 else 7.0))


def asynchronous(rank, size):
    total = float(size * (size + 1) // 2)
    tensors = [full(rank, 1000) for _ in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    futures = [work.get_future() for work in works]
    for future in futures:
        check("future", future.wait()[0], torch.full((1000,), total))
    assert all(work.is_completed() for work in works)
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as coalesced:
        for tensor in tensors:
            tensor.fill_(rank + 1)
            dist.all_reduce(tensor)
    coalesced.wait()
    for tensor in tensors:
        check("coalesced", tensor, torch.full((1000,), total))


def ddp(rank, size):
    torch.manual_seed(3)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Linear(30, 2)))
    alone = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Linear(30, 2))
    alone.load_state_dict(model.module.state_dict())
    data = torch.randn(size, 8, 20)
    for _ in range(3):
        model.zero_grad()
        model(data[rank]).square().sum().backward()
        alone.zero_grad()
        for r in range(size):
            (alone(data[r]).square().sum() / size).backward()
        for ours, theirs in zip(model.parameters(), alone.parameters()):
            assert torch.allclose(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def everything(rank, size):
    for part in (reductions, parts, exchanges, transfers, objects, groups, asynchronous, ddp):
        part(rank, size)
        dist.barrier()
    return {"backend": dist.get_backend()}


def codec(rank, size):
    import ferrule.torch

    generator = torch.Generator().manual_seed(rank)
    mine = torch.randn(1 << 16, generator=generator)
    exact = mine.clone()
    dist.all_reduce(exact)
    outcome = {}
    ferrule.torch.set_codec("int4")
    lossy = mine.clone()
    dist.all_reduce(lossy)
    outcome["all_reduce"] = float((lossy - exact).norm() / exact.norm())
    part = torch.empty(mine.numel() // size)
    dist.reduce_scatter_tensor(part, mine)
    expected = exact.view(size, -1)[rank]
    outcome["reduce_scatter"] = float((part - expected).norm() / expected.norm())
    same = [torch.empty_like(lossy) for _ in range(size)]
    dist.all_gather(same, lossy)
    outcome["identical"] = all(torch.equal(other, lossy) for other in same)
    for name, tensor, op in (
        ("double", mine.double(), dist.ReduceOp.SUM),
        ("integers", (mine * 1000).long(), dist.ReduceOp.SUM),
        ("max", mine.clone(), dist.ReduceOp.MAX),
        ("small", mine[:100].clone(), dist.ReduceOp.SUM),
    ):
        compressed = tensor.clone()
        dist.all_reduce(compressed, op)
        ferrule.torch.set_codec("none")
        dist.all_reduce(tensor, op)
        ferrule.torch.set_codec("int4")
        outcome[name] = torch.equal(compressed, tensor)
    broadcast = mine.clone()
    dist.broadcast(broadcast, 0)
    zero = torch.randn(1 << 16, generator=torch.Generator().manual_seed(0))
    outcome["broadcast"] = torch.equal(broadcast, zero)
    ferrule.torch.set_codec(None)
    again = mine.clone()
    dist.all_reduce(again)
    outcome["taken back"] = torch.equal(again, exact)
    return outcome


def environment(rank, size):
    mine = torch.randn(1 << 16, generator=torch.Generator().manual_seed(rank))
    exact = sum(torch.randn(1 << 16, generator=torch.Generator().manual_seed(r)) for r in range(size))
    dist.all_reduce(mine)
    whole = torch.empty(size * mine.numel())
    dist.all_gather_into_tensor(whole, mine)
    return {"error": float((mine - exact).norm() / exact.norm()), "gathered": bool((whole.view(size, -1) == mine).all())}


def monitored(rank, size):
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=20))
    text = ""
    if rank != 1:
        try:
            dist.monitored_barrier(timeout=datetime.timedelta(seconds=1), wait_all_ranks=True)
        except RuntimeError as error:
            text = str(error)
    return {"text": text}


def abort(rank, size):
    """An operation that cannot end, ended from another thread."""
    import threading

    group = dist.distributed_c10d._get_default_group()
    work = dist.irecv(torch.empty(5), (rank + 1) % size)
    threading.Timer(0.3, lambda: group._get_backend(torch.device("cpu")).abort()).start()
    try:
        work.wait()
    except RuntimeError as error:
        return {"text": str(error)}
    return {"text": "it ended well"}


def killed(rank, size):
    """Rank 1 dies in the middle of reduce-scatters and broadcasts; what the others are told."""
    import os
    import signal

    try:
        for step in range(1000):
            if rank == 1 and step == 20:
                os.kill(os.getpid(), signal.SIGKILL)
            part = torch.empty(5000)
            dist.reduce_scatter_tensor(part, torch.ones(5000 * size))
            dist.broadcast(part, step % size)
    except RuntimeError as error:
        return {"text": str(error)}
    return {"text": "it ended well"}


def main():
    what = globals()[sys.argv[1]]
    backend = sys.argv[2] if len(sys.argv) > 2 else "ferrule"
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=200))
    outcome = what(dist.get_rank(), dist.get_world_size())
    if sys.argv[1] not in ("abort", "killed", "monitored"):
        dist.destroy_process_group()
    print(json.dumps(outcome), flush=True)


main()
