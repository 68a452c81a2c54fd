"""Lines, regions, crowds, directions and dwell times of one stream."""

import json

import pytest

from sluice.analytics import (
    DirectionRule,
    LineRule,
    Mode,
    RegionRule,
    Seen,
    StreamAnalytics,
    StreamRules,
    read_config,
)

SIZE = (1000, 1000)
MS = 1_000_000
ALL = frozenset()
DOWN = ((500.0, 0.0), (500.0, 1000.0))
SEGMENT = ((200.0, 500.0), (800.0, 500.0))


def line(name="L", direction=DOWN, ends=SEGMENT, classes=ALL, extended=False, mode=Mode.BALANCED):
    return LineRule(name, direction, ends, classes, extended, mode)


def square(name, left, top, right, bottom, classes=ALL, **options):
    return RegionRule(name, ((left, top), (right, top), (right, bottom), (left, bottom)), classes, **options)


def at(x, y, identity=1, class_id=0):
    """An object that stands at a point."""
    return Seen(identity, class_id, (x - 10, y - 20, 20, 20))


def run(rules, *frames, size=SIZE, **options):
    """Return what was found on each frame; frames are lists of objects, 40 ms apart."""
    stream = StreamAnalytics(rules, SIZE, **options)
    return [stream.update(objects, size, number * 40 * MS) for number, objects in enumerate(frames)]


def total(rules, *frames, name="L", **options):
    return run(rules, *frames, **options)[-1].totals[name]


@pytest.mark.parametrize("name", ["sc1", "sc2_loose_0", "sc2_strict_0"])
def test_the_same_as_nvdsanalytics(reference, tmp_path, name):
    recorded = json.loads((reference / f"samples/analytics/{name}.json").read_text())
    path = tmp_path / "config.txt"
    path.write_text(recorded["config"])
    config = read_config(path)
    stream = StreamAnalytics(config.streams[0], (config.width, config.height))
    for row in recorded["rows"]:
        seen = [Seen(item["id"], item["class"], item["rect"]) for item in row["objects"]]
        found = stream.update(seen, (1920, 1080), row["frame_num"] * 33 * MS)
        (expected,) = row["frame_meta"]
        assert found.overcrowded == {key: bool(value) for key, value in expected["ocStatus"].items()}
        assert found.in_region == expected["objInROIcnt"]
        assert found.totals == expected["objLCCumCnt"]
        assert {key: found.current(key) for key in found.totals} == expected["objLCCurrCnt"]
        assert {str(key): value for key, value in found.classes.items()} == expected["objCnt"]
        for item, result in zip(row["objects"], found.objects, strict=True):
            assert bool(result) == bool(item["ana"])
            for wanted in item["ana"]:
                assert result.regions == wanted["roiStatus"]
                assert result.crowds == wanted["ocStatus"]
                assert result.lines == wanted["lcStatus"]
                assert result.direction_text() == wanted["dirStatus"]
                assert result.status() == wanted["objStatus"]


def test_a_crossing_has_the_object_and_the_line():
    found = run(StreamRules(lines=(line(),)), [at(500, 480, 7, 2)], [at(500, 520, 7, 2)])
    (crossing,) = found[1].crossings
    assert (crossing.line, crossing.id, crossing.class_id) == ("L", 7, 2)
    assert found[0].crossings == []
    assert found[1].objects[0].lines == ["L"]


def test_the_other_direction_does_not_count():
    assert total(StreamRules(lines=(line(),)), [at(500, 520)], [at(500, 480)]) == 0


def test_both_directions_are_two_lines():
    up = line("up", (DOWN[1], DOWN[0]))
    found = run(StreamRules(lines=(line(), up)), [at(500, 480)], [at(500, 520)], [at(500, 450)])
    assert [(item.line) for frame in found for item in frame.crossings] == ["L", "up"]


@pytest.mark.parametrize("mode", list(Mode))
def test_trembling_on_the_line_counts_once(mode):
    frames = [[at(500, 500 + offset)] for offset in (-30, -2, 2, -2, 2, -2, 0, 2, -2, 1, 30)]
    assert total(StreamRules(lines=(line(mode=mode),)), *frames) == 1


def test_trembling_of_an_object_that_goes_the_other_way_does_not_count():
    frames = [[at(500, 500 + offset)] for offset in (30, 2, -2, 2, -2, 2, -30)]
    assert total(StreamRules(lines=(line(),)), *frames) == 0


def test_coming_back_and_crossing_again_counts_again():
    frames = [[at(500, y)] for y in (480, 520, 480, 520)]
    assert total(StreamRules(lines=(line(),)), *frames) == 2
    assert total(StreamRules(lines=(line(),)), *frames, hysteresis=50) == 1


def test_a_path_beyond_the_end_of_the_segment_counts_only_when_extended():
    frames = [[at(900, 480)], [at(900, 520)]]
    assert total(StreamRules(lines=(line(),)), *frames) == 0
    assert total(StreamRules(lines=(line(extended=True),)), *frames) == 1


def test_where_a_slanting_path_meets_the_line_decides():
    rules = StreamRules(lines=(line(),))
    assert total(rules, [at(700, 400)], [at(1000, 700)]) == 1
    assert total(rules, [at(760, 400)], [at(900, 600)]) == 0


def test_going_round_the_end_and_back_over_it_does_not_count():
    assert total(StreamRules(lines=(line(),)), [at(900, 480)], [at(900, 520)], [at(500, 520)], [at(500, 480)]) == 0


def test_a_jump_over_unseen_frames_counts():
    assert total(StreamRules(lines=(line(),)), [at(500, 400)], [], [], [at(500, 600)]) == 1


def test_an_object_that_appears_beyond_the_line_does_not_count():
    assert total(StreamRules(lines=(line(),)), [at(500, 520)], [at(500, 560)]) == 0


def test_two_objects_in_one_frame_count_two():
    found = run(StreamRules(lines=(line(),)), [at(300, 480, 1), at(600, 490, 2)], [at(300, 520, 1), at(600, 510, 2)])
    assert [item.id for item in found[1].crossings] == [1, 2]
    assert (found[1].current("L"), found[1].totals) == (2, {"L": 2})


def test_untracked_objects_disturb_no_line():
    rules = StreamRules(lines=(line(),))
    assert total(rules, [at(500, 480), at(400, 480, None)], [at(500, 520), at(400, 520, None)]) == 1


def test_a_part_with_the_same_id_does_not_tear_the_track():
    part = Seen(1, 5, (490, 900, 10, 10))
    assert total(StreamRules(lines=(line(),)), [at(500, 480), part], [at(500, 490), part], [at(500, 520), part]) == 1


def test_only_the_lines_classes_count():
    rules = StreamRules(lines=(line(classes=frozenset({2})),))
    assert total(rules, [at(500, 480, 1, 2), at(300, 480, 2, 3)], [at(500, 520, 1, 2), at(300, 520, 2, 3)]) == 1


@pytest.mark.parametrize(
    ("ends", "direction", "path"),
    [
        (((0.0, 998.0), (1000.0, 998.0)), DOWN, [(500, 950), (500, 1000)]),
        (((0.0, 1.0), (1000.0, 1.0)), DOWN, [(500, 0), (500, 40)]),
        (((1.0, 0.0), (1.0, 1000.0)), ((900.0, 500.0), (100.0, 500.0)), [(40, 500), (0, 500)]),
        (((999.0, 0.0), (999.0, 1000.0)), ((100.0, 500.0), (900.0, 500.0)), [(950, 500), (1000, 500)]),
    ],
)
def test_lines_near_the_edge(ends, direction, path):
    rules = StreamRules(lines=(line(ends=ends, direction=direction),))
    assert total(rules, *[[at(*point)] for point in path]) == 1


def test_points_are_scaled_to_the_surface():
    frames = [[Seen(1, 0, (240, 220, 20, 20))], [Seen(1, 0, (240, 240, 20, 20))]]
    assert total(StreamRules(lines=(line(),)), *frames, size=(500, 500)) == 1


def test_regions_that_overlap_are_independent():
    rules = StreamRules(regions=(square("a", 0, 0, 600, 600), square("b", 400, 400, 1000, 1000)))
    (found,) = run(rules, [at(500, 500, 1), at(100, 100, 2), at(900, 900, 3)])
    assert found.in_region == {"a": 2, "b": 2}
    assert [item.regions for item in found.objects] == [["a", "b"], ["a"], ["b"]]


def test_a_point_on_a_shared_edge_is_in_one_region():
    rules = StreamRules(regions=(square("a", 0, 0, 500, 1000), square("b", 500, 0, 1000, 1000)))
    (found,) = run(rules, [at(500, 300)])
    assert sum(found.in_region.values()) == 1


def test_an_object_at_the_pictures_edge_is_in_a_region_of_the_whole_picture():
    rules = StreamRules(regions=(square("all", 0, 0, 1000, 1000),))
    corners = [(0, 0), (1000, 0), (0, 1000), (1000, 1000), (1000, 1010)]
    (found,) = run(rules, [at(*corner, number) for number, corner in enumerate(corners)])
    assert found.in_region == {"all": 5}


def test_an_inverse_region_is_what_is_outside():
    rules = StreamRules(regions=(square("out", 0, 0, 500, 500, inverse=True),))
    (found,) = run(rules, [at(100, 100, 1), at(700, 700, 2)])
    assert [item.regions for item in found.objects] == [[], ["out"]]


def test_a_region_that_is_not_convex():
    corners = ((0.0, 0.0), (300.0, 0.0), (300.0, 200.0), (200.0, 200.0), (200.0, 100.0), (0.0, 100.0))
    (found,) = run(StreamRules(regions=(RegionRule("L", corners, ALL),)), [at(100, 150, 1), at(250, 150, 2)])
    assert [item.regions for item in found.objects] == [[], ["L"]]


def test_zero_objects():
    rules = StreamRules(
        regions=(square("a", 0, 0, 500, 500),), crowds=(square("c", 0, 0, 9, 9, object_threshold=1),), lines=(line(),)
    )
    (found,) = run(rules, [])
    assert (found.objects, found.in_region, found.overcrowded) == ([], {"a": 0, "c": 0}, {"c": False})
    assert (found.totals, found.classes) == ({"L": 0}, {})


def test_overcrowding_needs_the_number_for_the_time():
    rules = StreamRules(crowds=(square("c", 0, 0, 500, 500, object_threshold=2, time_threshold=80 * MS),))
    one, two = [at(100, 100, 1)], [at(100, 100, 1), at(200, 100, None)]
    found = run(rules, two, two, one, two, two, two, two)
    assert [frame.overcrowded["c"] for frame in found] == [False, False, False, False, False, True, True]


def test_dwell_times_of_tracked_objects():
    rules = StreamRules(regions=(square("a", 0, 0, 500, 500),))
    inside, outside = at(100, 100, 1), at(700, 100, 1)
    found = run(rules, [inside, at(100, 100, None)], [inside], [], [inside], [outside], [inside])
    dwell = [frame.objects[0].dwell if frame.objects else None for frame in found]
    assert dwell == [{"a": 0}, {"a": 40 * MS}, None, {"a": 120 * MS}, {}, {"a": 0}]
    assert found[0].objects[1].dwell == {}


def test_the_nearest_direction_within_the_modes_angle():
    rules = StreamRules(
        directions=(
            DirectionRule("down", DOWN, ALL, Mode.BALANCED),
            DirectionRule("right", ((0.0, 0.0), (9.0, 0.0)), frozenset({1}), Mode.STRICT),
        )
    )

    def direction(dx, dy, class_id=0):
        frames = [[at(100 + number * dx, 100 + number * dy, 1, class_id)] for number in range(12)]
        return run(rules, *frames)[-1].objects[0].direction

    assert direction(0, 10) == "down"
    assert direction(9, 10) == "down"
    assert direction(10, 0) is None
    assert direction(10, 0, 1) == "right"
    assert direction(10, 6, 1) is None
    assert direction(0, 2) is None


def test_objects_that_are_gone_are_forgotten():
    stream = StreamAnalytics(StreamRules(lines=(line(),)), SIZE)
    for number in range(3000):
        stream.update([at(500, 400, number)], SIZE, number)
    assert len(stream._tracks) < 1000


def test_after_a_jump_objects_are_new_and_totals_stay():
    stream = StreamAnalytics(StreamRules(lines=(line(),)), SIZE)
    for y in (480, 520):
        stream.update([at(500, y)], SIZE, 0)
    stream.update([at(500, 480)], SIZE, 0)
    stream.forget()
    assert stream.update([at(500, 520)], SIZE, 0).totals == {"L": 1}


@pytest.mark.parametrize("nowhere", [float("nan"), float("inf"), float("-inf")])
def test_a_box_that_is_nowhere_does_not_move_its_object(nowhere):
    """The way from before it to behind it is what counts: here beyond the segment's end."""
    lost = Seen(1, 0, (nowhere, nowhere, 20.0, 20.0))
    found = run(StreamRules(lines=(line(),)), [at(100, 480)], [lost], [at(150, 520)])
    assert found[-1].totals == {"L": 0}
    found = run(StreamRules(lines=(line(),)), [at(300, 480)], [lost], [at(300, 520)])
    assert found[-1].totals == {"L": 1}
