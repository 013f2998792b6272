"""The picture of the times of calls."""

from __future__ import annotations

from xml.etree import ElementTree

from xpr.cli.plots import times_svg

_SVG = "{http://www.w3.org/2000/svg}"


def test_each_call_is_a_point_and_the_median_a_line() -> None:
    times = [0.001] * 60 + [0.002] * 40 + [0.5]
    root = ElementTree.fromstring(times_svg("<a> & b", times))
    points = root.findall(f"{_SVG}circle")
    assert len(points) == len(times)
    # 1.1 times the time that one of a hundred exceeds is at the top of the scale, 2.2 ms.
    heights = [float(p.get("cy", "")) for p in points]
    assert heights[0] == round(40 + 240 * (1 - 1 / 2.2), 1)
    assert heights[-1] == 40
    assert [p.get("fill") for p in points[-2:]] == ["#3b76b4", "none"]
    (median,) = (e for e in root.iter(f"{_SVG}line") if e.get("class") == "median")
    assert float(median.get("y1", "")) == heights[0]
    texts = [e.text for e in root.iter(f"{_SVG}text")]
    assert texts[0] == "<a> & b"
    assert "median 1 ms" in texts
    assert "101 calls, in their order" in texts


def test_of_many_calls_some_are_drawn() -> None:
    root = ElementTree.fromstring(times_svg("many", [0.001] * 100_000))
    assert len(root.findall(f"{_SVG}circle")) == 2000
