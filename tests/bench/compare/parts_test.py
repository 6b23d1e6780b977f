"""What the driver of bench/compare computes: options, specs, verdicts, ratios. Nothing is measured."""

import contextlib
import importlib.util
import io
import pathlib
import sys
import unittest

COMPARE = pathlib.Path(__file__).resolve().parents[3] / "bench" / "compare"
sys.path[:0] = [str(COMPARE), str(COMPARE / "workers")]

from harness import cli, contestants, links, measure, ratios, report


def entry(name: str, turns: list[float]) -> measure.Entry:
    verdict = {"wrong": 0, "identical": True, "relative_error": 0.0, "bounded": True}
    return measure.Entry(name, name.startswith("ferrule"), None, turns_us=turns, verdict=verdict)


def case(*entries: measure.Entry) -> measure.Case:
    return measure.Case("shm", 4, 1 << 20, True, 1, list(entries))


class Options(unittest.TestCase):
    def test_sizes(self):
        self.assertEqual([cli.parse_size(text) for text in ("4K", "64m", "8")], [4096, 64 << 20, 8])
        for text in ("", "0", "4X", "-4", "6", "K"):
            with self.assertRaises(ValueError, msg=text):
                cli.parse_size(text)

    def test_links(self):
        self.assertEqual(links.parse_link("latency:1gbit+10ms").ferrule_settings()["FERRULE_LINK"], "1gbit,10ms")
        self.assertEqual(links.parse_link("netns").rate, "1gbit")
        self.assertEqual(links.parse_link("netns:100mbit").rate, "100mbit")
        self.assertEqual(links.parse_link("tcp").ferrule_settings()["FERRULE_UCX_TLS"], "tcp")
        for text in ("wifi", "latency", "latency:", "shm:1gbit", ""):
            with self.assertRaises(ValueError, msg=text):
                links.parse_link(text)

    def test_contestants(self):
        made = contestants.parse_contestants("ferrule:int4:block=64@direct?BUILD=/b;FERRULE_LINK=1gbit,1ms,ompi,gloo")
        self.assertEqual([one.spec for one in made][1:], ["ompi:vader", "ompi:ucx", "ompi:tcp", "gloo"])
        ferrule = made[0]
        self.assertEqual((ferrule.codec, ferrule.algorithm, ferrule.build), ("int4:block=64", "direct", "/b"))
        self.assertEqual(ferrule.settings, {"FERRULE_LINK": "1gbit,1ms"})
        self.assertEqual(contestants.parse_contestants("ferrule:auto:int4")[0].codec, "auto:int4")
        for text in ("nccl", "ompi:smoke", "hook:topk", "gloo,gloo", "", "ferrule:none?oops"):
            with self.assertRaises(ValueError, msg=text):
                contestants.parse_contestants(text)

    def test_bad_arguments_end_with_2_and_say_what_is_allowed(self):
        for arguments in (["--links", "wifi"], ["--sizes", "3"], ["--ranks", "0"], ["--contestants", "nccl"]):
            errors = io.StringIO()
            with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(errors):
                cli.main(arguments)
            self.assertEqual(ended.exception.code, 2, arguments)
            self.assertIn(arguments[1], errors.getvalue())


class Ratios(unittest.TestCase):
    def test_pairs_are_of_the_same_round(self):
        # The second round was twice as slow for both: the ratio does not see it.
        one = ratios.ratio(entry("gloo", [20, 40, 30]), entry("ferrule:none", [10, 20, 10]))
        self.assertEqual(one.values, [2, 2, 3])
        self.assertEqual((one.spread.median, one.spread.q1, one.spread.q3), (2, 2, 2.5))

    def test_the_best_variant_of_open_mpi_is_that_with_the_lowest_median(self):
        made = ratios.ratios(
            case(entry("ferrule:none", [10, 10, 10]), entry("ompi:vader", [1, 30, 30]), entry("ompi:ucx", [20, 20, 20]))
        )
        medians = {one.other: one.spread.median for one in made}
        self.assertEqual(medians, {"ompi:vader": 3, "ompi:ucx": 2, "ompi:best": 2})

    def test_every_peer_against_every_ferrule_and_later_ferrules_against_earlier(self):
        made = ratios.ratios(case(entry("ferrule:none", [4]), entry("gloo", [8]), entry("ferrule:int4", [2])))
        found = {(one.other, one.base): one.spread.median for one in made}
        self.assertEqual(
            found, {("gloo", "ferrule:none"): 2, ("ferrule:int4", "ferrule:none"): 0.5, ("gloo", "ferrule:int4"): 4}
        )

    def test_busbw_is_that_of_the_uncompressed_bytes(self):
        one = entry("gloo", [1000.0])
        self.assertAlmostEqual(report.busbw_gbps(case(one), one), 1.5 * (1 << 20) / 1e6)


class Verdicts(unittest.TestCase):
    def answer(self, **changes) -> dict:
        usual = {"checked": 5, "wrong": 0, "max_error": 0.5, "error_squares": 1.0, "value_squares": 50.0}
        return {**usual, "digest": "a", "wire_bytes": 7, **changes}

    def test_shares_add_up(self):
        verdict = measure.combine([self.answer(), self.answer(wrong=3, max_error=2.0, wire_bytes=9)])
        self.assertEqual((verdict["checked"], verdict["wrong"], verdict["max_error"]), (10, 3, 2.0))
        self.assertAlmostEqual(verdict["relative_error"], (2 / 100) ** 0.5)
        self.assertEqual((verdict["wire_bytes"], verdict["identical"]), (9, True))
        self.assertEqual(report.check_label(verdict), "3 WRONG")

    def test_ranks_that_differ_are_seen(self):
        verdict = measure.combine([self.answer(), self.answer(digest="b")])
        self.assertFalse(verdict["identical"])
        self.assertEqual(report.check_label(verdict), "RANKS DIFFER")

    def test_an_error_that_is_no_number_survives(self):
        verdict = measure.combine([self.answer(), self.answer(error_squares=None, max_error=None, wrong=1)])
        self.assertIsNone(verdict["relative_error"])
        self.assertEqual(report.check_label(verdict), "1 WRONG")


@unittest.skipUnless(importlib.util.find_spec("torch"), "no torch")
class TorchWorker(unittest.TestCase):
    def test_its_data_are_those_of_the_other_workers(self):
        import torch_worker

        # The numbers of data_test.cpp.
        self.assertEqual(torch_worker.fill(7, 3, 1000, 6).tolist(), [-23, -100, 2, -50, 86, 40])


if __name__ == "__main__":
    unittest.main()
