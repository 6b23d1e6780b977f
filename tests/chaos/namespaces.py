"""Two "hosts" on one machine: network namespaces joined by a pair of virtual interfaces."""

import functools
import os
import shutil
import subprocess

# The namespaces of a run are named after its seed, so that runs may go side by side.


class Namespaces:
    def __init__(self, seed: int) -> None:
        tag = f"{os.getpid() % 10000}x{seed % 10000}"
        self._names = [f"frl-{tag}-a", f"frl-{tag}-b"]
        self._links = [f"fa{tag}", f"fb{tag}"]
        for name in self._names:
            _ip("netns", "add", name)
        _ip("link", "add", self._links[0], "type", "veth", "peer", "name", self._links[1])
        for host, (name, link) in enumerate(zip(self._names, self._links)):
            _ip("link", "set", link, "netns", name)
            _ip("-n", name, "address", "add", f"10.77.0.{host + 1}/24", "dev", link)
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", link, "up")

    @staticmethod
    @functools.cache
    def available() -> bool:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            return False
        probe = f"frl-probe-{os.getpid()}"
        if subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode != 0:
            return False
        return subprocess.run(["ip", "netns", "delete", probe], capture_output=True).returncode == 0

    def command(self, host: int, command: list[str]) -> list[str]:
        return ["ip", "netns", "exec", self._names[host], *command]

    def interface(self, host: int) -> str:
        return self._links[host]

    def cut(self, host: int) -> None:
        _ip("-n", self._names[host], "link", "set", self._links[host], "down")

    def remove(self) -> None:
        for name in self._names:
            _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
