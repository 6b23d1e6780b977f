"""Runs bench/compare/run as users do, as briefly as it goes. Peers that are not installed are left out.

COMPARE_BUILD is the build folder; COMPARE_PEERS what may take part beside Ferrule.
"""

import contextlib
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

COMPARE = pathlib.Path(__file__).resolve().parents[3] / "bench" / "compare"
sys.path.insert(0, str(COMPARE))

from harness import cli, measure

BUILD = os.environ["COMPARE_BUILD"]
PEERS = os.environ.get("COMPARE_PEERS", "ompi,gloo,hook")
NAMESPACE_WAIT_S = 60


def run(contestants: str, sizes: str, *arguments: str) -> tuple[int, dict, str]:
    """Exit status, results.json, and the table."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["--quick", "--build", BUILD, "--output", folder, "--timeout", "200", *arguments]
        command += ["--contestants", contestants, "--sizes", sizes]
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            code = cli.main(command)
        results = json.loads((pathlib.Path(folder) / "results.json").read_text())
        assert (pathlib.Path(folder) / "table.txt").read_text().strip() == text.getvalue().strip()
        return code, results, text.getvalue()


class AgainstPeers(unittest.TestCase):
    def test_all_contestants_verify_and_the_file_has_its_shape(self):
        peers = f",{PEERS}" if PEERS else ""
        contestants = f"ferrule:none,ferrule:int4{peers}"
        code, results, text = run(contestants, "4K,64K", "--links", "shm", "--ranks", "2")
        self.assertEqual(code, 0, text)
        self.assertEqual(results["schema"], 1)
        cases = [(case["bytes"], case["in_place"]) for case in results["cases"]]
        self.assertEqual(cases, [(4096, True), (4096, False), (65536, True), (65536, False)])
        for case in results["cases"]:
            self.check_case(case)
        for one in results["skipped"]:
            self.assertTrue(one["why"] and one["contestant"] in text, one)

    def check_case(self, case: dict) -> None:
        by_name = {one["name"]: one for one in case["contestants"]}
        self.assertLessEqual({"ferrule:none", "ferrule:int4"}, set(by_name))
        for name, one in by_name.items():
            self.assertEqual((one["wrong"], one["identical"]), (0, True), name)
            self.assertEqual(one["checked"], case["bytes"] // 4 * case["repeat"], name)
            self.assertEqual(len(one["turns_us"]), 2, name)
            self.assertTrue(all(turn > 0 for turn in one["turns_us"]), name)
        self.assertEqual(by_name["ferrule:none"]["relative_error"], 0)
        self.assertGreater(by_name["ferrule:int4"]["relative_error"], 0)
        self.assertLess(by_name["ferrule:int4"]["wire_bytes"], by_name["ferrule:none"]["wire_bytes"])
        against = {one["other"] for one in case["ratios"] if one["base"] == "ferrule:int4"}
        peers = set(by_name) - {"ferrule:none", "ferrule:int4"}
        self.assertEqual(against - {"ompi:best"}, peers)
        self.assertEqual("ompi:best" in against, any(name.startswith("ompi") for name in peers))
        for one in case["ratios"]:
            self.assertEqual(one["pairs"], len(one["values"]))
            self.assertLessEqual(one["q1"], one["median"])
            self.assertLessEqual(one["median"], one["q3"])


class Troubles(unittest.TestCase):
    arguments = ("--links", "shm", "--ranks", "2", "--place", "in")

    def test_a_wrong_result_is_seen(self):
        fault = "ferrule:none?FERRULE_FAULT=corrupt_payload:nth=5,rank=1"
        code, results, text = run(fault, "1M", *self.arguments)
        self.assertEqual(code, 1, text)
        self.assertTrue("WRONG" in text or "RANKS DIFFER" in text, text)
        verdict = results["cases"][0]["contestants"][0]
        self.assertTrue(verdict["wrong"] or not verdict["identical"])

    def test_a_contestant_that_fails_is_left_out_and_the_others_go_on(self):
        code, results, text = run("ferrule:none,ferrule:none@nonsense,ferrule:gzip", "4K", *self.arguments)
        self.assertEqual(code, 3)
        self.assertEqual([one["name"] for one in results["cases"][0]["contestants"]], ["ferrule:none"])
        why = {one["contestant"]: one["why"] for one in results["skipped"]}
        self.assertIn("nonsense", why["ferrule:none@nonsense"])
        self.assertIn("gzip", why["ferrule:gzip"])
        self.assertIn("nonsense", text)

    def test_what_is_not_there_is_skipped_with_a_reason(self):
        with mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            code, results, text = run("ferrule:none?BUILD=/nowhere,ompi:ucx", "4K", *self.arguments)
        self.assertEqual(code, 0)
        why = {one["contestant"]: one["why"] for one in results["skipped"]}
        self.assertIn("compare-ferrule", why["ferrule:none?BUILD=/nowhere"])
        self.assertIn("mpirun is not installed", why["ompi:ucx"])
        self.assertIn("mpirun is not installed", text)

    def test_short_of_memory_each_has_its_tensors_in_its_turn_only(self):
        size = 64 << 10
        with mock.patch.object(measure, "available_bytes", return_value=4 * 2 * size * 16 + 1):
            code, results, text = run("ferrule:none,ferrule:int4", "64K,1M", *self.arguments)
        self.assertEqual(code, 0, text)
        self.assertEqual([one["wrong"] for one in results["cases"][0]["contestants"]], [0, 0])
        with mock.patch.object(measure, "available_bytes", return_value=1 << 20):
            code, results, text = run("ferrule:none", "1M", *self.arguments)
        self.assertEqual(results["cases"][0]["contestants"], [])
        self.assertIn("MiB are needed", text)

    def test_peers_sit_out_of_the_throttle(self):
        throttled = ("--links", "latency:1ms", *self.arguments[2:])
        code, results, text = run("ferrule:none,gloo,ompi", "4K", *throttled)
        self.assertEqual(code, 0, text)
        (only,) = results["cases"][0]["contestants"]
        self.assertGreaterEqual(only["time_us"]["median"], 1000)  # what the throttle promises
        skipped = {one["contestant"] for one in results["skipped"]}
        self.assertEqual(skipped, {"gloo", "ompi:vader", "ompi:ucx", "ompi:tcp"})


def namespaces(pid: int) -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith(f"ferrule-cmp-{pid}-")]


def can_have_namespaces() -> bool:
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        return False
    name = f"fcmp-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    shape = "qdisc add dev lo root tbf rate 1gbit burst 256kb latency 50ms".split()
    shaped = made and subprocess.run(["tc", "-n", name, *shape], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return bool(made and shaped.returncode == 0)


@unittest.skipUnless(can_have_namespaces(), "network namespaces with tbf need root and iproute2")
class Hosts(unittest.TestCase):
    def test_hosts_are_shaped_and_removed(self):
        code, results, text = run("ferrule:none", "1M", "--links", "netns:200mbit", "--ranks", "3", "--place", "in")
        self.assertEqual(code, 0, text)
        (only,) = results["cases"][0]["contestants"]
        # A bucket of 256 KB comes before the rate: 1 MiB is enough for it to show. 200 Mbit/s are 0.025 GB/s.
        self.assertLess(only["busbw_gbps"], 0.05)
        self.assertEqual(namespaces(os.getpid()), [])

    def interrupted(self, number: int) -> int:
        with tempfile.TemporaryDirectory() as folder:
            command = [str(COMPARE / "run"), "--links", "netns", "--ranks", "2", "--rounds", "100000", "--sizes", "64K"]
            command += ["--contestants", "ferrule:none", "--build", BUILD, "-o", folder]
            driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + NAMESPACE_WAIT_S
            while len(namespaces(driver.pid)) < 3 and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual(len(namespaces(driver.pid)), 3)
            time.sleep(0.5)
            driver.send_signal(number)
            code = driver.wait(NAMESPACE_WAIT_S)
            self.assertEqual(namespaces(driver.pid), [])
            return code

    def test_ctrl_c_leaves_nothing(self):
        self.assertEqual(self.interrupted(signal.SIGINT), 128 + signal.SIGINT)

    def test_sigterm_leaves_nothing(self):
        self.assertEqual(self.interrupted(signal.SIGTERM), 128 + signal.SIGTERM)

    def test_what_a_killed_driver_left_is_removed_by_the_next(self):
        killed = subprocess.Popen(["true"])
        killed.wait()
        subprocess.run(["ip", "netns", "add", f"ferrule-cmp-{killed.pid}-0"], check=True)
        run("ferrule:none", "4K", "--links", "netns", "--ranks", "2", "--place", "in")
        self.assertEqual(namespaces(killed.pid), [])


if __name__ == "__main__":
    unittest.main()
