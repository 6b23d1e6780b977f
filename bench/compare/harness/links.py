"""What lies between the ranks. A link says how processes are started on each host, and which settings name it."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess

_PREFIX = "ferrule-cmp-"


class LinkError(RuntimeError):
    """The link cannot be had here; the text says why and what to do."""


class Link:
    """Ranks of one host: shared memory, or TCP through the loopback device."""

    def __init__(self, name: str, kind: str):
        self.name = name
        self.kind = kind  # shm, tcp, netns, latency
        self.interface = "lo"
        self.hosts = 1
        self.throttle = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def prefix(self, rank: int) -> list[str]:
        """Words before a command that run it on the host of that rank."""
        del rank
        return []

    def ferrule_settings(self) -> dict[str, str]:
        settings = {"FERRULE_UCX_TLS": "shm" if self.kind in ("shm", "latency") else "tcp"}
        if self.kind != "shm":
            settings["FERRULE_SOCKET_IFNAME"] = f"={self.interface}"
        if self.throttle:
            settings["FERRULE_LINK"] = self.throttle
        return settings


class Latency(Link):
    """Ferrule's own throttle, on shared memory. Only Ferrule has it: peers sit out."""

    def __init__(self, name: str, throttle: str):
        super().__init__(name, "latency")
        self.throttle = throttle


def _call(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LinkError(f"'{' '.join(argv)}' failed: {(done.stderr or done.stdout).strip()}")


class Namespaces(Link):
    """A network namespace for each host, and one for the switch between them; nothing is left in the host's own.

    Each cable is shaped at both ends, so a host can neither send nor be sent more than the rate.
    """

    def __init__(self, name: str, rate: str):
        super().__init__(name, "netns")
        self.rate = rate
        self.interface = "fcmp0"
        self._stem = f"{_PREFIX}{os.getpid()}"
        self._made: list[str] = []

    def why_not(self) -> str | None:
        if os.geteuid() != 0:
            return "network namespaces need root"
        missing = [tool for tool in ("ip", "tc", "unshare") if shutil.which(tool) is None]
        return f"needs {' and '.join(missing)} (iproute2, util-linux)" if missing else None

    def build(self, hosts: int) -> None:
        remove_stale()
        self.hosts = hosts
        try:
            switch = self._add("switch")
            _call("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
            _call("ip", "-n", switch, "link", "set", "br0", "up")
            for host in range(hosts):
                self._add_host(switch, host)
        except LinkError:
            self.remove()
            raise

    def _add(self, what: str) -> str:
        name = f"{self._stem}-{what}"
        self._made.append(name)  # first: half made is to be removed too
        _call("ip", "netns", "add", name)
        return name

    def _add_host(self, switch: str, host: int) -> None:
        namespace, port = self._add(str(host)), f"port{host}"
        peer = ["peer", "name", self.interface, "netns", namespace]
        _call("ip", "-n", switch, "link", "add", port, "type", "veth", *peer)
        _call("ip", "-n", switch, "link", "set", port, "master", "br0", "up")
        _call("ip", "-n", namespace, "link", "set", "lo", "up")
        _call("ip", "-n", namespace, "addr", "add", f"{self.address(host)}/24", "dev", self.interface)
        _call("ip", "-n", namespace, "link", "set", self.interface, "up")
        for where, device in ((namespace, self.interface), (switch, port)):
            shape = ["tbf", "rate", self.rate, "burst", "256kb", "latency", "50ms"]
            _call("tc", "-n", where, "qdisc", "add", "dev", device, "root", *shape)

    def address(self, host: int) -> str:
        """Its last number is the host's, and one."""
        return f"10.213.77.{host + 1}"

    def prefix(self, rank: int) -> list[str]:
        # A host name of its own too: libraries take processes with one name for neighbours.
        in_host = ["ip", "netns", "exec", f"{self._stem}-{rank}", "unshare", "--uts", "sh", "-c"]
        return [*in_host, f'hostname host{rank}; exec "$@"', "sh"]

    def rsh_agent(self, folder: pathlib.Path) -> pathlib.Path:
        """What mpirun calls, as 'agent ADDRESS COMMAND...', in place of ssh."""
        agent = folder / "agent"
        agent.write_text(
            "#!/bin/sh\n"
            "host=$((${1##*.} - 1))\n"
            "shift\n"
            f"exec ip netns exec {self._stem}-$host unshare --uts sh -c \"hostname host$host; $*\"\n"
        )
        agent.chmod(0o700)
        return agent

    def remove(self) -> None:
        for name in self._made:
            _remove(name)
        self._made = []

    def __exit__(self, *_):
        self.remove()


def _remove(name: str) -> None:
    """A namespace of ours, and what still runs in it. Devices go with it."""
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    for pid in listed.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), 9)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def remove_stale() -> None:
    """Namespaces of runs that were killed before they could clean up."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    for line in listed.stdout.splitlines():
        match = re.match(rf"{_PREFIX}(\d+)-\w+", line)
        if match and not pathlib.Path(f"/proc/{match[1]}").exists():
            _remove(match[0])


def parse_link(text: str) -> Link:
    """'shm', 'tcp', 'netns', 'netns:100mbit', 'latency:10ms', 'latency:1gbit,50ms' is written 'latency:1gbit+50ms'."""
    kind, _, value = text.partition(":")
    if kind in ("shm", "tcp") and not value:
        return Link(text, kind)
    if kind == "netns":
        return Namespaces(text, value or "1gbit")
    if kind == "latency" and value:
        return Latency(text, value.replace("+", ","))
    raise ValueError(f"unknown link '{text}': shm, tcp, netns[:RATE] or latency:TIME, e.g. latency:10ms")
