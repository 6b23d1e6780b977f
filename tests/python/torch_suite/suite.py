"""torch's own backend tests, as they ship in its wheel, on one backend. Run by scripts/torch_backend_tests.

The tests ask for gloo by name, so "ferrule" runs under gloo's name: whatever they expect of gloo they expect of it.
"""

import json
import os
import sys
import tempfile
import unittest

_PREPARED = "TORCH_SUITE_FOLDER"


def prepare() -> None:
    """Folders and variables that torch's module reads when it is imported; once, in the first process."""
    if _PREPARED in os.environ:
        return
    folder = tempfile.mkdtemp(prefix="ferrule-torch-suite-")
    for name in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(folder, name))
    os.environ.update(
        {
            _PREPARED: folder,
            "BACKEND": "gloo",
            "TEMP_DIR": folder,
            "INIT_METHOD": f"file://{folder}/init_dir/shared_init_file",
        }
    )
    os.environ.setdefault("WORLD_SIZE", "3")


prepare()

import torch.distributed as dist  # noqa: E402

if os.environ.get("TORCH_SUITE_BACKEND", "ferrule") == "ferrule":
    from ferrule.torch import _backend

    _backend.register()
    dist.Backend._plugins["GLOO"] = dist.Backend._plugins["FERRULE"]

from torch.testing._internal.distributed import distributed_test  # noqa: E402

if os.environ.get("TORCH_SUITE_BACKEND", "ferrule") == "ferrule":
    # The events that the profiler gets from within torch's C++ backends; torch has a list of who makes them.
    distributed_test.PROFILING_SUPPORTED_BACKENDS.clear()
    distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.clear()

DistributedTest, TestDistBackend = distributed_test.DistributedTest, distributed_test.TestDistBackend


class TestBackend(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()


class Recorder(unittest.TextTestResult):
    """Writes one line of JSON a test as soon as it has ended."""

    def _record(self, test, outcome, reason=""):
        name = test.id().rpartition(".")[2]
        with open(os.environ["TORCH_SUITE_RESULTS"], "a") as results:
            results.write(json.dumps({"test": name, "outcome": outcome, "reason": reason}) + "\n")

    def addSuccess(self, test):
        super().addSuccess(test)
        self._record(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._record(test, "skipped", reason)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._record(test, "failed", str(error[1])[-4000:])

    def addError(self, test, error):
        super().addError(test, error)
        self._record(test, "failed", str(error[1])[-4000:])


def main(names) -> int:
    loader = unittest.TestLoader()
    wanted = names or loader.getTestCaseNames(TestBackend)
    suite = unittest.TestSuite(TestBackend(name) for name in wanted)
    result = unittest.TextTestRunner(resultclass=Recorder, verbosity=2).run(suite)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(unittest.TestLoader().getTestCaseNames(TestBackend)))
        sys.exit(0)
    sys.exit(main(sys.argv[1:]))
