"""Every figure of orrery_plot, over frames: what is drawn is what was given, axes carry units, nothing global changes.
"""

import io
import sys
import unittest

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_hex
from orrery_plot import frames, kernels, network, overtime, palette, places, serving, shares, style, timeline, verdicts
from orrery_plot.style import PlotError
from support import lines_of, texts_of

QUANTILES = np.linspace(0, 1, 11)


def quantiles(**scales) -> pd.DataFrame:
    """A table of distributions: metric m has quantile q at scale (1 + q)."""
    parts = [pd.DataFrame({"metric": m, "quantile": QUANTILES, "value_s": s * (1 + QUANTILES)})
             for m, s in scales.items()]
    return pd.concat(parts, ignore_index=True)


def samples(count: int = 20, replicas: int = 1) -> pd.DataFrame:
    rows = pd.DataFrame({"time_s": np.repeat(np.arange(count, dtype=float), replicas),
                         "replica": list(range(replicas)) * count})
    for k, name in enumerate(("running", "waiting", "kv_used_bytes", "batch_tokens", "power_w")):
        rows[name] = (rows["time_s"] + rows["replica"] + k) * (2.0**30 if name == "kv_used_bytes" else 1.0)
    return rows


def energy(**joules) -> pd.DataFrame:
    return pd.DataFrame({"device": "d", "class": list(joules), "energy_j": list(joules.values()),
                         "busy_s": [j / 100 if c != "idle" else 0.0 for c, j in joules.items()]})


def png(figure) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=50)
    return data.getvalue()


class Style(unittest.TestCase):
    def test_nothing_global_is_changed(self):
        before = dict(matplotlib.rcParams)
        backend = matplotlib.get_backend()
        figure = serving.latency({"a": quantiles(ttft=1)})
        self.assertEqual(png(figure)[:4], b"\x89PNG")
        self.assertEqual(dict(matplotlib.rcParams), before)
        self.assertEqual(matplotlib.get_backend(), backend)
        self.assertNotIn("matplotlib.pyplot", sys.modules)  # no figure is kept alive behind anybody's back

    def test_a_picture_keeps_its_style_whatever_the_callers_is(self):
        figure = serving.latency({"a": quantiles(ttft=1)})
        plain = png(figure)
        with matplotlib.rc_context({"font.size": 20, "axes.grid": False, "text.color": "red"}):
            self.assertEqual(png(figure), plain)
        self.assertEqual(figure._repr_png_()[:4], b"\x89PNG")  # what a notebook shows

    def test_the_same_data_give_the_same_bytes(self):
        first, second = (png(shares.breakdown({"a": energy(mm=3, idle=1)})) for _ in range(2))
        self.assertEqual(first, second)

    def test_things_of_one_colour_differ_in_dash_marker_and_hatch(self):
        for look in (palette.dash, palette.marker, palette.hatch):
            pairs = {(palette.colour(i), look(i)) for i in range(24)}
            self.assertEqual(len(pairs), 24, look.__name__)

    def test_colours_can_be_told_apart_in_grey(self):
        def grey(colour):  # CIE luminance of the two that are used first, which print without colour must keep apart
            r, g, b = (int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5))
            return 0.2126 * r**2.2 + 0.7152 * g**2.2 + 0.0722 * b**2.2

        self.assertGreater(abs(grey(palette.colour(0)) - grey(palette.colour(1))), 0.2)

    def test_labels_from_names_of_columns(self):
        for name, label in (("ttft_s.p99", "P99 TTFT (s)"),
                            ("throughput.output_tokens_per_s", "output throughput (tokens/s)"),
                            ("kv_used_bytes", "KV used (B)"),
                            ("energy_per_output_token_j", "energy per output token (J)"),
                            ("tokens", "tokens"), ("power_w", "power (W)")):
            self.assertEqual(frames.label_of(name), label)

    def test_a_legend_makes_room_below_and_fits(self):
        @style.styled
        def draw():
            figure, ((axes,),) = style.grid_of(1, 1, (3.0, 2.0))
            for i in range(6):
                axes.plot([0, 1], [0, i], label=f"a rather long name of a line {i}")
            style.legend_below(figure, 4)
            return figure

        figure = draw()
        self.assertGreater(figure.get_figheight(), 2.0)
        self.assertEqual(figure.legends[0]._ncols, 1)
        png(figure)
        box = figure.legends[0].get_window_extent()
        self.assertLessEqual(box.x1, figure.bbox.x1)
        self.assertGreaterEqual(box.x0, 0)


class Latency(unittest.TestCase):
    def test_one_run_is_a_curve_a_metric_with_its_targets(self):
        figure = serving.latency({"a": quantiles(ttft=1, tbt=0.1, strange=1)}, targets={"ttft": 2.0, "e2e": 9.0})
        left, right = figure.axes
        curves = lines_of(left, at_least=3)
        self.assertEqual(len(curves), 2)  # what is no metric of requests is drawn if asked for
        np.testing.assert_allclose(curves[0].get_xdata(), 1 + QUANTILES)
        np.testing.assert_allclose(curves[0].get_ydata(), QUANTILES)
        np.testing.assert_allclose(lines_of(right, at_least=3)[0].get_ydata(),
                                   1 - QUANTILES[:-1])  # 0 has no place on a log axis
        self.assertEqual([t.get_text() for t in left.texts],
                         ["SLO TTFT 2\N{NO-BREAK SPACE}s"])  # no E2E: no target of it
        self.assertEqual((left.get_xlabel(), right.get_ylabel()), ("time (s)", "fraction above"))

    def test_several_runs_are_a_line_each(self):
        figure = serving.latency({"slow": quantiles(ttft=2, e2e=9), "fast": quantiles(ttft=1, e2e=5)}, metrics=["e2e"])
        left, right = figure.axes
        self.assertEqual([line.get_label() for line in lines_of(left, at_least=3)], ["slow", "fast"])
        self.assertEqual(len({line.get_color() for line in lines_of(left, at_least=3)}), 2)
        self.assertEqual(len({line.get_linestyle() for line in lines_of(left, at_least=3)}), 2)
        self.assertEqual(right.get_xlabel(), "E2E (s)")

    def test_metrics_that_are_always_0(self):
        figure = serving.latency({"a": quantiles(ttft=1, queueing=0)})
        self.assertIn("Queueing (all 0 s)", texts_of(figure.legends[0]))

    def test_nothing_to_draw_and_unknown_metrics(self):
        for runs, metrics, message in (
                ({}, None, "no run was given"), ({"a": quantiles(ttft=1).iloc[:0]}, None, "empty"),
                ({"a": quantiles(ttft=1)}, ["tttf"], "no metric 'tttf'; there are ttft"),
                ({"a": pd.DataFrame({"metric": ["ttft"], "quantile": [0.5], "value_s": [np.nan]})}, None,
                 "no request")):
            with self.assertRaisesRegex(PlotError, message):
                serving.latency(runs, metrics)


class Attainment(unittest.TestCase):
    FRAME = pd.DataFrame({"rate_per_s": [2, 1, 1, 2], "scale": [1.0, 1.0, 2.0, 2.0],
                          "attainment": [0.5, 1.0, 1.0, 0.9]})

    def test_percent_over_the_rate_in_its_order(self):
        figure = serving.slo(self.FRAME, by="scale", target=0.95)
        axes = figure.axes[0]
        first = axes.containers[0].lines[0]
        self.assertEqual((list(first.get_xdata()), list(first.get_ydata())), ([1, 2], [100, 50]))
        self.assertEqual(axes.get_xlabel(), "request rate (1/s)")
        self.assertEqual(axes.get_ylabel(), "requests that attain the SLO (%)")
        self.assertEqual(set(texts_of(figure.legends[0])), {"scale 1", "scale 2", "target 95 %"})
        self.assertIn([95.0, 95.0], [list(line.get_ydata()) for line in axes.lines])

    def test_one_point_and_none(self):
        self.assertEqual(len(serving.slo(self.FRAME.iloc[:1]).axes[0].containers), 1)
        with self.assertRaisesRegex(PlotError, "empty"):
            serving.slo(self.FRAME.iloc[:0])
        with self.assertRaisesRegex(PlotError, "found no attainment among rate_per_s"):
            serving.slo(self.FRAME[["rate_per_s"]])

    def test_throughput_latency_joins_points_by_the_load(self):
        frame = pd.DataFrame({"x_tokens_per_s": [10.0, 30.0, 25.0], "ttft_s.p99": [0.001, 0.004, 0.9],
                              "rate": [1, 2, 3]})
        axes = serving.throughput_latency(frame, "x_tokens_per_s", "ttft_s.p99", order="rate", target=0.5).axes[0]
        self.assertEqual(list(axes.lines[0].get_xdata()), [10, 30, 25])  # beyond saturation the throughput falls
        np.testing.assert_allclose(axes.lines[0].get_ydata(), [1, 4, 900])
        self.assertEqual((axes.get_xlabel(), axes.get_ylabel()), ("x (tokens/s)", "P99 TTFT (ms)"))
        self.assertEqual(axes.get_yscale(), "log")  # 1 to 900
        self.assertEqual([t.get_text() for t in axes.texts], ["SLO 500 ms"])

    def test_panels(self):
        frame = pd.DataFrame({"rate_per_s": [1, 2, 1, 2], "attainment": 1.0, "device": ["a", "a", "b", "b"]})
        figure = serving.slo(frame, panel="device")
        self.assertEqual([axes.get_title(loc="left") for axes in figure.axes], ["a", "b"])


class OverTime(unittest.TestCase):
    def test_a_panel_a_field_with_its_unit(self):
        figure = overtime.series({"a": samples()}, kv_capacity_bytes=64 * 2.0**30)
        panels = figure.axes[:5]
        self.assertEqual([axes.get_ylabel() for axes in panels], ["requests", "requests", "GiB", "tokens", "W"])
        np.testing.assert_allclose(panels[2].lines[0].get_ydata(), np.arange(20) + 2)  # GiB
        self.assertEqual(panels[-1].get_xlabel(), "simulated time (s)")

    def test_replicas_and_runs_have_lines(self):
        self.assertEqual(len(overtime.series({"a": samples(replicas=3)}, ["running"]).axes[0].lines), 3)
        figure = overtime.series({"a": samples(500, 2), "b": samples(30)}, ["power_w"])
        lines = figure.axes[0].lines
        self.assertEqual([line.get_label() for line in lines], ["a", "b"])
        self.assertLessEqual(len(lines[0].get_xdata()), 120)  # smoothed alike, however long
        self.assertAlmostEqual(np.mean(lines[0].get_ydata()),
                               249.5 + 0.5 + 4)  # means keep the mean: of time, replica, field

    def test_unknown_fields_and_empty_tables(self):
        with self.assertRaisesRegex(PlotError, "no field 'runing'"):
            overtime.series({"a": samples()}, ["runing"])
        with self.assertRaisesRegex(PlotError, "empty"):
            overtime.series({"a": samples(0)})


class Breakdown(unittest.TestCase):
    def test_one_run_has_a_bar_a_class(self):
        figure = shares.breakdown({"a": energy(mm=3000, norm=1000, idle=1000)}, "both")
        time, joules = figure.axes
        self.assertEqual([bar.get_width() for bar in joules.patches], [3, 1, 1])  # kJ
        self.assertEqual(joules.get_xlabel(), "energy (kJ)")
        self.assertEqual(time.get_xlabel(), "device time (s)")
        self.assertIn("3\N{NO-BREAK SPACE}kJ · 60.0\N{NO-BREAK SPACE}%", [t.get_text() for t in joules.texts])
        self.assertEqual(to_hex(joules.patches[2].get_facecolor()), palette.IDLE)

    def test_several_runs_are_stacked_alike(self):
        runs = {"a": energy(**{f"c{i}": 10.0 + i for i in range(8)}, idle=5.0), "b": energy(c0=100.0, idle=1.0)}
        figure = shares.breakdown(runs, "both")
        for axes, sums in zip(figure.axes, ([1.08, 1.0], [113.0, 101.0])):
            stacks = axes.containers
            self.assertEqual(len(stacks), 7)  # five classes, all others, idle
            np.testing.assert_allclose(np.sum([[bar.get_width() for bar in s] for s in stacks], axis=0) /
                                       (1000 if "ms" in axes.get_xlabel() else 1), sums)
            self.assertEqual(len({(to_hex(s[0].get_facecolor()), s[0].get_hatch()) for s in stacks}), 7)
        looks = [[to_hex(s[0].get_facecolor()) for s in axes.containers] for axes in figure.axes]
        self.assertEqual(*looks)  # a class has one colour in both panels

    def test_bad_input(self):
        with self.assertRaisesRegex(PlotError, "'energy', 'time' or 'both', got 'watts'"):
            shares.breakdown({"a": energy(mm=1)}, "watts")
        with self.assertRaisesRegex(PlotError, "empty"):
            shares.breakdown({"a": energy(mm=1).iloc[:0]})

    def test_what_draws_at_the_same_time_has_no_shares_of_time(self):
        runs = {"a": energy(compute=5, memory=3, idle=2), "b": energy(compute=1, memory=3, idle=1)}
        for some in (runs, {"a": runs["a"]}):
            self.assertEqual([axes.get_xlabel() for axes in shares.breakdown(some, "both").axes], ["energy (J)"])
            with self.assertRaisesRegex(PlotError, "draw at the same time"):
                shares.breakdown(some, "time")


def slices(count: int = 9) -> pd.DataFrame:
    return pd.DataFrame([("p", f"stage {s}", f"forward {m}", (s + m) * 1e-3, 1e-3, 0)
                         for s in (10, 2) for m in range(count)],
                        columns=["process", "track", "name", "start_s", "duration_s", "depth"])


class Timelines(unittest.TestCase):
    def test_a_row_a_track_in_natural_order(self):
        figure = timeline.gantt(slices())
        axes = figure.axes[0]
        self.assertEqual([t.get_text() for t in axes.get_yticklabels()], ["stage 2", "stage 10"])
        (boxes,) = [c for c in axes.collections if isinstance(c, PolyCollection)]  # one kind: forward
        self.assertEqual(len(boxes.get_paths()), 18)
        self.assertEqual(axes.get_xlabel(), "simulated time (ms)")
        np.testing.assert_allclose(boxes.get_paths()[0].get_extents().get_points(), [[10, 0.6], [11, 1.4]])  # row 1, ms
        self.assertEqual(texts_of(figure.legends[0]), ["forward"])

    def test_depth_stacks_and_kinds_have_looks(self):
        nested = pd.DataFrame({"track": "t", "name": list("abcdefghijkl"), "start_s": np.arange(12.0),
                               "duration_s": 1.0, "depth": [0, 1] * 6})
        figure = timeline.gantt(nested)
        self.assertEqual(len(texts_of(figure.legends[0])), 8)  # seven kinds and the others
        self.assertIn("others", texts_of(figure.legends[0]))
        tops = {round(path.get_extents().y0 + 0.4) for c in figure.axes[0].collections for path in c.get_paths()}
        self.assertEqual(tops, {0, 1})

    def test_lanes_of_a_pipeline_have_looks(self):
        self.assertEqual(texts_of(timeline.gantt(slices(3)).legends[0]), ["forward 0", "forward 1", "forward 2"])

    def test_windows_and_tracks(self):
        figure = timeline.gantt(slices(), tracks=["stage 10"], start_s=0.012, end_s=0.013)
        self.assertEqual(len(figure.axes[0].get_yticklabels()), 1)
        self.assertEqual([round(v, 9) for v in figure.axes[0].get_xlim()], [12.0, 13.0])
        with self.assertRaisesRegex(PlotError, "no track of stage 3; there are stage 10, stage 2"):
            timeline.gantt(slices(), tracks=["stage 3"])
        with self.assertRaisesRegex(PlotError, "between 1 s and 2 s"):
            timeline.gantt(slices(), start_s=1, end_s=2)
        with self.assertRaisesRegex(PlotError, "empty"):
            timeline.gantt(slices(0))

    def test_too_many_slices_are_told(self):
        many = pd.DataFrame({"track": "t", "name": "k", "start_s": np.arange(30000.0), "duration_s": 0.5})
        self.assertIn("the longest 20,000 of 30,000 slices", timeline.gantt(many).axes[0].get_title(loc="left"))


class MemoryMap(unittest.TestCase):
    BLOCKS = pd.DataFrame({"id": list("abcd"), "lower": [0, 2, 5, 7], "upper": [4, 6, 9, 9], "size": [100, 50, 100, 30],
                           "offset": [0, 100, 0, 100]})

    def test_a_box_a_block(self):
        above, axes = timeline.memory_map(self.BLOCKS, capacity_bytes=200).axes
        boxes = [path.get_extents().get_points().tolist() for c in axes.collections for path in c.get_paths()]
        self.assertEqual(sorted(boxes),
                         [[[0, 0], [4, 100]], [[2, 100], [6, 150]], [[5, 0], [9, 100]], [[7, 100], [9, 130]]])
        self.assertEqual((axes.get_ylabel(), axes.get_xlabel()), ("offset (B)", "time (operators)"))
        self.assertIn("peak 150\N{NO-BREAK SPACE}B · 0\N{NO-BREAK SPACE}%", above.get_title(loc="left"))

    def test_live_bytes_by_hand(self):
        at, live = timeline.live_bytes(self.BLOCKS)
        # a to 2, a and b to 4, b to 5, b and c to 6, c to 7, c and d to 9.
        self.assertEqual(list(zip(at, live)), [(0, 100), (2, 150), (4, 50), (5, 150), (6, 100), (7, 130), (9, 0)])

    def test_one_block_and_none(self):
        self.assertEqual(len(timeline.memory_map(self.BLOCKS.iloc[:1]).axes), 2)
        with self.assertRaisesRegex(PlotError, "empty"):
            timeline.memory_map(self.BLOCKS.iloc[:0])


class Roofline(unittest.TestCase):
    MACHINE = {"name": "toy", "bandwidth_bytes_per_s": 1e12, "peak_flops_per_s": {"fp16": 100e12, "fp32": 10e12}}
    KERNELS = pd.DataFrame({"name": ["gemm", "gemm", "norm", "copy"], "flops": [2e9, 2e9, 1e6, 0],
                            "bytes": [1e7, 1e7, 1e6, 1e6],
                            "time_s": [4e-5, 4e-5, 1e-6, 1e-6], "bound_by": ["compute", "compute", "memory", "memory"]})

    def test_marks_lie_at_intensity_and_rate(self):
        figure = kernels.roofline(self.MACHINE, self.KERNELS)
        axes = figure.axes[0]
        marks = np.concatenate([c.get_offsets() for c in axes.collections if isinstance(c, PathCollection)])
        # gemm: 2e9 / 1e7 = 200 FLOP/B at 2e9 / 4e-5 = 50 TFLOP/s, two launches in one mark.
        # norm: 1e6 / 1e6 = 1 FLOP/B at 1e6 / 1e-6 = 1 TFLOP/s.
        np.testing.assert_allclose(sorted(marks.tolist()), [[1, 1], [200, 50]])
        self.assertEqual((axes.get_xlabel(), axes.get_ylabel()),
                         ("arithmetic intensity (FLOP/B)", "attained (TFLOP/s)"))
        self.assertEqual(texts_of(figure.legends[0]), ["bound by compute", "bound by memory"])
        self.assertIn("4 kernels", axes.get_title(loc="left"))
        self.assertIn("1.2\N{NO-BREAK SPACE}% of the time in kernels without FLOPs",
                      axes.get_title(loc="left"))  # 1 of 82 us

    def test_the_roof(self):
        roof = kernels.roofline(self.MACHINE, self.KERNELS, "fp16").axes[0].lines[0]
        np.testing.assert_allclose(roof.get_ydata(), np.minimum(roof.get_xdata() * 1.0, 100.0))  # 1 TB/s, 100 TFLOP/s
        self.assertEqual(len(kernels.roofline(self.MACHINE, self.KERNELS).axes[0].lines), 2)

    def test_bad_input(self):
        with self.assertRaisesRegex(PlotError, "no peak for fp8; there are fp16, fp32"):
            kernels.roofline(self.MACHINE, self.KERNELS, "fp8")
        with self.assertRaisesRegex(PlotError, "kernels with FLOPs and bytes"):
            kernels.roofline(self.MACHINE, self.KERNELS.iloc[3:])
        with self.assertRaisesRegex(PlotError, "above 0"):
            kernels.roofline({"name": "none"}, self.KERNELS)


def links(pairs, utilisation=None) -> pd.DataFrame:
    both = [pair for a, b in pairs for pair in ((a, b), (b, a))]
    return pd.DataFrame({"from": [a for a, _ in both], "to": [b for _, b in both],
                         "utilisation": utilisation if utilisation is not None else np.linspace(0, 1, len(both))})


class Topology(unittest.TestCase):
    TREE = [("h0", "edge0"), ("h1", "edge0"), ("h2", "edge1"), ("h10", "edge1"), ("edge0", "core0"), ("edge1", "core0")]

    def test_a_cable_is_drawn_once_by_its_busier_direction(self):
        figure = network.topology(links(self.TREE, [0.1, 0.4] * 6))
        (cables,) = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
        self.assertEqual(len(cables.get_segments()), 6)
        self.assertEqual(len({tuple(c) for c in cables.get_colors()}), 1)  # all 40 %
        self.assertIn("7 nodes, 6 cables", figure.axes[0].get_title(loc="left"))
        self.assertEqual(figure.axes[1].get_ylabel(), "utilisation of the busier direction (%)")

    def test_layers_lie_by_hops_from_the_hosts(self):
        nodes = sorted({n for pair in self.TREE for n in pair}, key=frames.natural)
        at = places._layers(nodes, self.TREE, "h0")
        self.assertEqual({n: y for n, (_, y) in at.items()},
                         {"h0": 0, "h1": 0, "h2": 0, "h10": 0, "edge0": 1, "edge1": 1, "core0": 2})
        self.assertLess(at["h2"][0], at["h10"][0])
        self.assertLess(at["edge0"][0], at["edge1"][0])

    def test_idle_cables_are_grey_and_layouts_suit(self):
        ring = [(f"h{i}", f"h{(i + 1) % 5}") for i in range(5)]
        figure = network.topology(links(ring, 0.0))
        (cables,) = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
        self.assertEqual({to_hex(c) for c in cables.get_colors()}, {palette.IDLE})
        self.assertEqual(places._suits([f"h{i}" for i in range(5)], ring), "circle")
        self.assertEqual(places._suits(["h0.0", "h1.0"], [("h0.0", "h1.0")]), "grid")
        self.assertEqual(places._suits(["h0", "r0", "r1"], [("h0", "r0"), ("r0", "r1")]), "rings")

    def test_bad_input(self):
        with self.assertRaisesRegex(PlotError, "empty"):
            network.topology(links([]))
        with self.assertRaisesRegex(PlotError, "layers, circle, rings, grid, got 'tree'"):
            network.topology(links(self.TREE), "tree")


class Claims(unittest.TestCase):
    ROWS = [{"system": "S", "claim": "a", "expected": [1.0, 2.0], "simulated": 1.5, "holds": True},
            {"system": "S", "claim": "b", "expected": [None, 1.0], "simulated": 4.0, "holds": False},
            {"system": "S", "claim": "c", "expected": [3.0, None], "simulated": None, "holds": False}]

    def test_words_bands_and_verdicts(self):
        axes = verdicts.claims(self.ROWS).axes[0]
        shown = [t.get_text() for t in axes.texts]
        self.assertEqual(shown[0], "S: 1 of 3 claims hold")
        for text in ("1 to 2", "≤ 1", "≥ 3", "1.5  holds", "4  MISSED", "–  not judged"):
            self.assertIn(text, shown)
        bands = [c for c in axes.collections if isinstance(c, PolyCollection)]
        self.assertEqual([to_hex(c.get_facecolor()[0]) for c in bands],
                         [palette.GREEN.lower(), palette.VERMILION.lower()] + [palette.VERMILION.lower()])

    def test_where_a_value_stands(self):
        self.assertAlmostEqual(verdicts.place(1, 2, 1.5), 0.5)
        self.assertAlmostEqual(verdicts.place(1, 2, 1), verdicts.LOW)
        self.assertAlmostEqual(verdicts.place(1, 2, 2), verdicts.HIGH)
        self.assertEqual(verdicts.place(1, 2, 99), 0.97)  # off the strip
        self.assertGreater(verdicts.place(None, 1.0, 4.0), verdicts.HIGH)
        self.assertGreater(verdicts.place(3.0, None, 5.0), verdicts.LOW)

    def test_none_and_too_many(self):
        with self.assertRaisesRegex(PlotError, "found no claim|empty"):
            verdicts.claims([])
        with self.assertRaisesRegex(PlotError, "do not fit a page"):
            verdicts.claims(self.ROWS * 20)


if __name__ == "__main__":
    unittest.main()
