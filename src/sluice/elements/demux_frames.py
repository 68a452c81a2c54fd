"""How ``sluicedemux`` takes a batch apart: each frame's own buffer, and its metadata in a batch of one."""

from collections.abc import Callable
from dataclasses import dataclass

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract.batching import frame_buffer
from sluice.contract.host import is_host_batch
from sluice.contract.metadata import BatchMeta, FrameMeta, Lease, UserMeta
from sluice.contract.provider import Provider, provider
from sluice.contract.surface import SurfaceBatch
from sluice.elements.flow import release
from sluice.errors import ContractError


@dataclass
class Part:
    """One frame of a batch.

    Attributes:
        stream: its ``pad_index``.
        pts: its ``buf_pts`` in nanoseconds.
        meta: address of its metadata, a batch of one that no buffer owns yet.
        held: the buffer that came into the muxer, or a slice of the batch.
        caps: of the frame, where nothing has told them.
    """

    stream: int
    pts: int
    meta: int
    held: list[Gst.Buffer]
    caps: Gst.Caps | None = None


def split(
    batch: int, wanted: Callable[[int], bool], undescribed: Callable[[int], tuple[int, int] | None]
) -> list[Part]:
    """Return the wanted frames of the batch at a buffer's address, in batch order; the batch is only read.

    Args:
        batch: address of a GstBuffer.
        wanted: whether frames of a stream (``pad_index``) are wanted; called for each frame.
        undescribed: the frame rate to put into the caps of a stream that have to be read from its frame; None where
            they are known. Called for each wanted frame of a batch in system memory.

    Raises:
        ContractError: the buffer carries no NvDsBatchMeta, or is no batch of surfaces.
    """
    parts: list[Part] = []
    buffer = gstref.wrap(batch)
    with Lease(buffer) as lease:
        meta = BatchMeta.of(buffer, lease)
        if meta is None:
            raise ContractError("a buffer without NvDsBatchMeta came in; put sluicemux (or nvstreammux) before")
        on_host = is_host_batch(batch)
        try:
            for frame in meta.frames:
                if wanted(frame.pad_index):
                    rate = undescribed(frame.pad_index) if on_host else None
                    caps = None if rate is None else _caps_of(buffer, frame.batch_id, rate)
                    held = [frame_buffer(buffer, frame.batch_id)]
                    parts.append(Part(frame.pad_index, frame.buf_pts, copy_alone(frame), held, caps))
        except BaseException:
            for part in parts:
                discard(part)
            raise
    return parts


def _caps_of(buffer: Gst.Buffer, index: int, rate: tuple[int, int]) -> Gst.Caps:
    """Return the caps of a frame in system memory that came out of another library's batch."""
    surfaces = SurfaceBatch.of(buffer)
    surface = surfaces[index]
    colours = f"{1 if surface.full_range else 2}:{int(surface.matrix)}:0:0"  # see GstVideoColorimetry
    caps = Gst.Caps.from_string(
        f"video/x-raw, format={surface.format}, width={surface.width}, height={surface.height}, "
        f"framerate={rate[0]}/{rate[1]}, colorimetry=(string){colours}"
    )
    surfaces.close()
    return caps


def finish(part: Part) -> int:
    """Return the address of a part's buffer with its metadata and timestamp; the caller owns the reference.

    That is the very buffer unless somebody else holds it too, such as a decoder its reference pictures, who must not
    see it change: then it is a new buffer around the same memory. The batch must have been let go.
    """
    if part.held[0].pts != part.pts:
        part.held.append(_timed(part.held.pop(), part.pts))
    address = gstref.make_writable(release(part.held))
    owner = provider()
    if owner.find_address(address):
        # That of a demuxer before the muxer; the frame is described by what the muxer's batch says of it.
        owner.detach_address(address)
    owner.attach_address(address, part.meta)
    part.meta = 0
    return address


def _timed(buffer: Gst.Buffer, pts: int) -> Gst.Buffer:
    """Return a buffer with another PTS: the same one if nobody else holds it, else a copy that shares its memory."""
    own = buffer if gstref.is_writable(gstref.address(buffer)) else buffer.copy()
    own.pts = pts
    return own


def discard(part: Part) -> None:
    """Free the metadata of a part that `finish` was not called for."""
    if part.meta:
        provider().destroy_batch(part.meta)
        part.meta = 0


def copy_alone(frame: FrameMeta) -> int:
    """Return the address of a new batch that holds a copy of one frame, equal in order and links.

    The library's copy puts every list in reverse and loses parents that stand behind their children, so the frame is
    copied twice, and the parents and classifier names are set afterwards.
    """
    owner = frame.provider
    _drop_uncopyable(frame)
    batch, turned = owner.create_batch(1), owner.create_batch(1)
    try:
        copy = _copy_into(owner, batch, _copy_into(owner, turned, frame.address))
        with Lease() as lease:
            view = FrameMeta(copy, lease, owner)
            view.batch_id = 0
            view.pipeline_width, view.pipeline_height = frame.pipeline_width, frame.pipeline_height
            _restore_links(frame, view)
    except BaseException:
        owner.destroy_batch(batch)
        raise
    finally:
        owner.destroy_batch(turned)
    return batch


def _copy_into(owner: Provider, batch: int, frame: int) -> int:
    copy = owner.acquire_frame(batch)
    owner.copy_frame(frame, copy)
    owner.add_frame(batch, copy)
    return copy


def _restore_links(frame: FrameMeta, copy: FrameMeta) -> None:
    """Set what the library's copy loses: the objects' parents and the names of their classifiers."""
    originals, copies = frame.objects, copy.objects
    place = {original.address: index for index, original in enumerate(originals)}
    for original, twin in zip(originals, copies, strict=True):
        parent = original.parent
        index = place.get(parent.address) if parent else None
        twin.parent = None if index is None else copies[index]
        for classifier, twin_classifier in zip(original.classifiers, twin.classifiers, strict=True):
            twin_classifier.classifier_type = classifier.classifier_type


def _drop_uncopyable(frame: FrameMeta) -> None:
    """Remove the user metas that have no copy function, with which NVIDIA's copy crashes."""
    owner = frame.provider
    for user in _uncopyable(frame.user_metas):
        owner.remove_user_from_frame(frame.address, user)
    for item in frame.objects:
        for user in _uncopyable(item.user_metas):
            owner.remove_user_from_object(item.address, user)


def _uncopyable(users: list[UserMeta]) -> list[int]:
    return [user.address for user in users if not user.copy_func]
