"""sluiceinfer with a configuration file of nvinfer: the model, the properties that the file sets, and their order."""

from infer_pipeline import RAW, run


def found(properties):
    done = run(f"{RAW.format(n=6, format='I420')} ! sluiceinfer name=infer {properties} ! fakesink")
    assert done.error is None
    return done.frames


def test_the_file_is_the_model_and_sets_properties(config):
    frames = found(f"config-file-path={config}")
    assert [frame.infer_done for frame in frames] == [True, False, False, True, False, False]
    (item,) = frames[0].objects
    assert (item.label, item.component, item.box) == ("dog", 4, (16, 12, 32, 24))


def test_properties_that_are_set_go_before_the_file(config):
    frames = found(f"model={config} interval=0 unique-id=9")
    assert all(frame.infer_done for frame in frames)
    assert frames[0].objects[0].component == 9


def test_a_wrong_file_ends_the_start_with_its_line(config):
    config.write_text(config.read_text().replace("interval=2", "interval=two"))
    done = run(f"{RAW.format(n=6, format='I420')} ! sluiceinfer name=infer model={config} ! fakesink")
    assert "line 4: [property] interval is 'two'; right is an integer" in str(done.error)
