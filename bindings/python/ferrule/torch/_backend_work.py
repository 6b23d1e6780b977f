"""What a collective of the backend returns: torch's Work, over the native ones that do it."""

import queue
import threading

import torch
import torch.distributed as dist

from ferrule._errors import FerruleError


class BackendWork(dist.Work):
    """Done when all native works are; then `finish` puts results where they belong, once, in whichever thread comes first."""

    def __init__(self, completer, natives, outputs, finish=None):
        super().__init__()
        self._completer = completer
        self._natives = natives
        self._outputs = outputs
        self._finish = finish
        self._lock = threading.Lock()
        self._error = None
        self._ended = False
        self._future = None

    def wait(self, timeout=None):
        # torch's "no timeout" is zero.
        seconds = None if timeout is None or timeout.total_seconds() <= 0 else timeout.total_seconds()
        try:
            for native in self._natives:
                native.wait(seconds)
        except FerruleError as error:
            if seconds is None or self._all_done():
                self._error = error
            raise
        self._end()
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        if not self._all_done():
            return False
        try:
            self.wait()
        except FerruleError:
            pass  # completed, not well: see is_success()
        return True

    def is_success(self):
        return self.is_completed() and self._error is None

    def exception(self):
        return self._error

    def result(self):
        return self._outputs

    def source_rank(self):
        return self._natives[0].source

    _source_rank = source_rank

    def get_future(self):
        with self._lock:
            if self._future is not None:
                return self._future
            future = self._future = torch.futures.Future()
        if self._all_done():
            complete(self, future)
        else:
            self._completer.add(self, future)
        return future

    def _all_done(self):
        return all(native.done() for native in self._natives)

    def _end(self):
        with self._lock:
            if self._ended:
                return
            if self._finish is not None:
                self._finish()
            # The memory of those who wait no longer is theirs again.
            self._finish = None
            self._ended = True


class Completer:
    """Completes futures as their works end. A thread, started when the first future is asked for: works end in the order of
    their calls, but for sends and receives, which have a thread each."""

    def __init__(self):
        self._queue = queue.SimpleQueue()
        self._thread = None
        self._lock = threading.Lock()

    def add(self, work, future):
        if isinstance(work, TransferWork):
            threading.Thread(target=complete, args=(work, future), daemon=True).start()
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ferrule-futures", daemon=True)
                self._thread.start()
        self._queue.put((work, future))

    def close(self):
        """Ends the thread when what is queued is done."""
        if self._thread is not None:
            self._queue.put(None)

    def _run(self):
        while (item := self._queue.get()) is not None:
            complete(*item)


class TransferWork(BackendWork):
    """A send or a receive."""


def complete(work, future):
    """Waits for the work, and hands its result or its error to the future."""
    try:
        work.wait()
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(work.result())
