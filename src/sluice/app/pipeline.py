"""`sluice.Pipeline`: videos in, your model, tracked and annotated frames out."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sluice.app.options import UNCHANGED, Options, Unchanged
from sluice.app.planned import Planned
from sluice.app.sources import parse_source, parse_sources
from sluice.app.streams import EventLog, StreamPolicy, StreamStatus
from sluice.app.summary import Summary
from sluice.app.vlm import VlmOptions
from sluice.errors import ConfigurationError

if TYPE_CHECKING:
    from sluice.app.accounts import Progress
    from sluice.app.job import Job
    from sluice.app.measuring import Measured
    from sluice.app.streams.branch import BranchFactory
    from sluice.models.frame import Frame


class Pipeline:
    """Many videos through one model, tracked, and drawn and reported where asked for.

    Iterate it for the frames, or call `run`; either can be done once. As a context manager it is stopped at the end::

        with sluice.Pipeline(["street.mp4"], model="people") as pipeline:
            for frame in pipeline:
                print(frame.stream, frame.pts, [(o.id, o.label, o.xyxy) for o in frame.objects])
        print(pipeline.summary)

    Iteration goes through a bounded queue. Files wait for the program; of a live source the newest frames are kept and
    the others counted as dropped. A frame's pixels can be used for as long as the frame is held.
    """

    def __init__(
        self,
        sources: str | Path | Iterable[str | Path],
        *,
        model: Any = None,
        labels: str | Path | None = None,
        tracker: str | None = "bytetrack",
        keep_unconfirmed: bool = False,
        out: str | Path | None = None,
        messages: str | Path | None = None,
        spool: str | Path | None = None,
        tile: bool = False,
        confidence: float | None = None,
        iou: float | None = None,
        max_detections: int | None = None,
        classes: Sequence[int | str] | None = None,
        interval: int | None = None,
        runtime: str = "auto",
        device: str = "auto",
        model_options: Mapping[str, Any] | None = None,
        batch_size: int | None = None,
        frames: int | None = None,
        on_error: str = "fail",
        analytics: str | Path | None = None,
        look_for: Sequence[str] = (),
        vlm: VlmOptions | Mapping[str, Any] | str | None = None,
        index: str | Path | None = None,
        index_model: Any = None,
        policy: StreamPolicy | None = None,
        capture_time: str = "auto",
        service: bool = False,
        branches: BranchFactory | None = None,
    ) -> None:
        """Describe the work; nothing is opened before it is started.

        Args:
            sources: files, globs, folders of images, ``rtsp://``, ``http://``, ``v4l2:/dev/video0`` or
                ``test:ball?frames=100&size=640x480&fps=30&live=1``; one stream each.
            model: what ``load_model`` takes (a path, a registered name, ``package.module:Class``, ``file.py:Class``),
                or a model itself: an object or class with ``infer(frames)``, or a function of frames. None: no model.
            labels: file with one label per line, in place of the model's own.
            tracker: name of the tracker, or None for no tracking.
            keep_unconfirmed: keep objects that belong to no confirmed track, without an id. By default they are left
                out, as nvtracker does, and counted in the summary.
            out: an ``.mp4`` file (one stream, or several tiled), or a folder for one annotated file per stream.
            messages: JSON lines file, "-" for the standard output, or the URL of a broker: ``kafka://host:port/topic``,
                ``mqtt://``, ``amqp://``, ``redis://``, ``nats://``, ``https://``; see docs/brokers.md.
            spool: file of messages that the broker has not acknowledged, for one pipeline; "none": memory only;
                None: what the URL says, else one for the broker's address.
            tile: show all streams in one picture.
            confidence: least score of a detection, 0..1; None: the model's own.
            iou: overlap from which boxes of one class are merged, 0..1; None: the model's own.
            max_detections: most detections per frame.
            classes: labels or class ids to keep; None: all.
            interval: batches passed without inference after each with it; None: as a configuration file of nvinfer
                says, and 0 for any other model.
            runtime: what executes a network: "auto", "onnxruntime", ...
            device: where: "auto", "cpu", "cuda", "cuda:1", ...
            model_options: options of the model's own.
            batch_size: most frames in one call of the model; None: one per stream, 16 at most.
            frames: end each stream after so many frames.
            on_error: when the model raises: "fail" ends the run, "skip" passes the frames without detections.
            analytics: a configuration file of nvdsanalytics, by which tracked objects are counted.
            look_for: what an open-vocabulary detector looks for, as in ``["red truck", "person with a helmet"]``.
            vlm: a vision-language model, or another slow thinker, that is asked about segments of each stream: a back
                end (the URL of an endpoint, "transformers", ``file.py:Class``), or a mapping with the options of
                `VlmOptions`, as in ``{"backend": "http://host:8000/v1", "model": "smolvlm", "every": 10}``.
            index: folder of an archive in which embeddings of objects and frames are kept, for ``sluice search``.
            index_model: makes an embedding of each tracked object for it, as `model` is named; None where the models
                that run make some already.
            policy: how the streams are treated that are not added with a policy of their own.
            capture_time: what ``ntp_timestamp`` of live streams' frames is: "rtcp", the camera's clock as its sender
                reports tell it, 0 until the first; "arrival", this machine's clock; "auto": the first for RTSP, the
                second for others. Each frame says which, see `sluice.contract.capture`.
            service: go on when no stream is left, until `stop`; it may begin without any. Cameras are opened again for
                ever; a stream that has ended stays and can be restarted.
            branches: makes what stands behind each stream, in place of the files of `out`; see `BranchFactory`.

        Raises:
            ConfigurationError: a source or value that cannot be used, by name.
        """
        self._options = Options(
            model=model,
            labels=labels,
            tracker=None if tracker == "none" else tracker,
            keep_unconfirmed=keep_unconfirmed,
            out=out,
            messages=messages,
            spool=spool,
            tile=tile,
            confidence=confidence,
            iou=iou,
            max_detections=max_detections,
            classes=classes,
            interval=interval,
            runtime=runtime,
            device=device,
            model_options=model_options,
            batch_size=batch_size,
            frames=frames,
            on_error=on_error,
            analytics=analytics,
            look_for=(look_for,) if isinstance(look_for, str) else tuple(look_for),
            vlm=VlmOptions.of(vlm),
            index=index,
            index_model=index_model,
            policy=policy or StreamPolicy(),
            capture_time=capture_time,
            service=service,
        )
        texts = [sources] if isinstance(sources, str | Path) else list(sources)
        self._planned = [Planned(source) for source in parse_sources(texts)] if texts or not service else []
        self._branches = branches
        self._events = EventLog(time.time)
        self._job: Job | None = None
        self._begun = self._ended = False
        self._changing = threading.Lock()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __iter__(self) -> Iterator[Frame]:
        """Start the pipeline and give its frames, in order per stream.

        Raises:
            SluiceError: an error that ended the whole run; a stream that failed is only in the summary.
        """
        job = self.start(iterate=True)
        assert job.queue is not None
        try:
            while (frame := job.queue.get()) is not None:
                yield frame
            job.wait()
        finally:
            job.stop()

    def run(self) -> Summary:
        """Run to the end of all streams without giving frames to the program, and return the summary.

        Raises:
            SluiceError: an error that ended the whole run; a stream that failed is only in the summary.
        """
        job = self.start()
        try:
            job.wait()
        finally:
            job.stop()
        return self.summary

    def start(self, *, iterate: bool = False) -> Job:
        """Start without waiting; `stop` ends it. Frames are queued for iteration only if asked for.

        Raises:
            SluiceError: it was started before, or cannot be started.
        """
        with self._changing:
            if self._begun:
                raise ConfigurationError("a Pipeline runs once; make a new one to run again")
            self._begun = True
        from sluice.app.job import Job

        with self._changing:
            planned = list(self._planned)
        job = Job(planned, self._options, iterate, branches=self._branches, events=self._events)
        with self._changing:
            self._job = job
            late = self._planned[len(planned) :]
            ended = self._ended
        for plan in late:
            job.add(plan)
        if ended:
            job.stop()
        job.start()
        return job

    def stop(self) -> None:
        """End all streams, finish the files, and return within two seconds; without effect where nothing runs.

        Called by another thread during the start, it has the run end as soon as everything has started.
        """
        with self._changing:
            self._ended = self._begun
            job = self._job
        if job is not None:
            job.stop()

    @property
    def started(self) -> bool:
        """Whether all elements were started."""
        return self._job is not None and self._job.started

    @property
    def summary(self) -> Summary:
        """How it went, or goes so far.

        Raises:
            ConfigurationError: the pipeline was not started yet.
        """
        if self._job is None:
            raise ConfigurationError("there is no summary before the pipeline was started")
        return self._job.summary

    @property
    def progress(self) -> list[Progress]:
        """How far each stream is; empty before the start."""
        return [] if self._job is None else self._job.progress()

    # Streams that come and go

    def add(
        self,
        source: str | Path,
        *,
        name: str | None = None,
        policy: StreamPolicy | None = None,
        members: Mapping[str, Any] | None = None,
        number: int | None = None,
    ) -> str:
        """Add a stream, before the start or while the others play, and return its name.

        It's opened on a thread of its own: a source that cannot be opened is seen in `streams` and `events`.

        Args:
            source: as for the pipeline; one stream.
            name: letters, digits, space and ``_ . - ( ) [ ]``; None: after the source. No two streams share a name.
            policy: how it is treated; None: as the pipeline was told.
            members: JSON values that its messages have besides, by name.
            number: its number, where several pipelines share streams out and each number is given once; None: the next.

        Raises:
            ConfigurationError: the source or the name cannot be used, or the run is over.
        """
        plan = Planned(parse_source(source), name, policy, members or {}, number)
        with self._changing:
            job = self._job
            if job is None:
                self._planned.append(plan)
        if job is not None:
            return job.add(plan)
        return name or plan.source.name

    def remove(self, name: str) -> None:
        """Take a stream out, finish its file, and free all that was kept for it.

        Waits a few seconds at most; where a model or a disk holds it up, the rest is done afterwards.

        Raises:
            ConfigurationError: there is no stream of that name.
        """
        self._running().remove(name)

    def restart(self, name: str) -> None:
        """Close a stream's source and open it anew; the stream keeps its number, and its objects get new ids.

        Raises:
            ConfigurationError: there is no stream of that name, or it has ended in a run that is no service.
        """
        self._running().restart(name)

    def update(self, name: str, policy: StreamPolicy) -> None:
        """Treat a stream by another policy; it is opened anew only where that concerns how it is opened.

        Raises:
            ConfigurationError: there is no stream of that name, or its picture has nothing of the policy's region.
        """
        self._running().update(name, policy)

    def swap_model(self, model: str, policy: str = "beside") -> int:
        """Begin to replace the model by another, between two batches; events say how that ended.

        Args:
            model: a path, a registered name, ``package.module:Class`` or ``file.py:Class``.
            policy: "beside": the old one runs until the new one can; "in-place": the old one makes room first.

        Returns:
            the number of the event "model-loading"; the first "model-swapped" or "model-refused" in `events` behind it
            says how this change ended.

        Raises:
            ConfigurationError: the policy is none, or the pipeline has no model.
        """
        return self._running().model.swap(model, policy)

    def set_thresholds(
        self,
        confidence: float | Unchanged | None = UNCHANGED,
        iou: float | Unchanged | None = UNCHANGED,
        classes: Sequence[int | str] | Unchanged | None = UNCHANGED,
    ) -> None:
        """Change which detections count: those named, see the pipeline's own arguments; None: the model's own again.

        The model is loaded anew for it; an event says how that went. What was refused changes nothing. The tracker
        keeps the threshold that it began with, from which detections begin tracks.

        Raises:
            ConfigurationError: a value cannot be used.
        """
        self._running().model.set_thresholds(confidence, iou, classes)

    def set_look_for(self, texts: Sequence[str]) -> None:
        """Have an open-vocabulary detector look for other things; events say how that ended.

        It is encoded beside the model, and counts from one of the next batches on.

        Raises:
            ConfigurationError: the pipeline was not started yet.
        """
        self._running().model.set_prompt([texts] if isinstance(texts, str) else texts)

    @property
    def model(self) -> dict[str, Any]:
        """The model that runs: "name", "runtime", "state" ("running" or "loading") and "reason" of the last refusal.

        Raises:
            ConfigurationError: the pipeline was not started yet.
        """
        return self._running().model.status

    @property
    def model_seconds(self) -> float:
        """Seconds that all calls of the model took so far; 0 before the start."""
        return 0.0 if self._job is None else self._job.model_seconds

    @property
    def streams(self) -> list[StreamStatus]:
        """What each stream is doing; empty before the start."""
        return [] if self._job is None else self._job.streams

    def stream(self, name: str) -> StreamStatus:
        """What one stream is doing: quicker than to look for it among all.

        Raises:
            ConfigurationError: there is none of that name, or the pipeline was not started yet.
        """
        return self._running().stream(name)

    @property
    def events(self) -> EventLog:
        """What has happened so far; may be subscribed to before the start."""
        return self._events

    @property
    def answers(self) -> dict[str, list[dict[str, Any]]]:
        """The last answers of the slow model for each stream, by its name, the newest last; empty without one."""
        vlm = None if self._job is None else self._job.vlm
        return {} if vlm is None else dict(json.loads(vlm.get_property("answers")))

    def ask(self, stream: str, prompt: str | None = None) -> bool:
        """Have the slow model asked about a stream from its next frame on.

        Args:
            stream: the stream's name.
            prompt: what is asked, in place of the usual; placeholders are filled in.

        Returns:
            False where no frame of such a stream has come by yet, or the prompt has an unknown placeholder.

        Raises:
            ConfigurationError: the pipeline was not started yet, or has no slow model.
        """
        vlm = self._running().vlm
        if vlm is None:
            raise ConfigurationError("the pipeline has no slow model: it was made without vlm")
        return bool(vlm.emit("ask", stream, prompt))

    @property
    def elements(self) -> list[Any]:
        """The GStreamer elements that all streams share, to be looked at; empty before everything was started."""
        return self._job.elements() if self._job is not None and self._job.started else []

    @property
    def measured(self) -> Measured | None:
        """The shared elements, measured from the first question on; None before everything was started."""
        return self._job.measuring.begin() if self._job is not None and self._job.started else None

    def _running(self) -> Job:
        if self._job is None:
            raise ConfigurationError("the pipeline was not started yet")
        return self._job
