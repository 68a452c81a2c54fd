"""The key points of DeepStream's event messages: names by place, for each type of pose."""

from __future__ import annotations

_NAMES_2D = (
    "nose",
    "neck",
    "right-shoulder",
    "right-elbow",
    "right-hand",
    "left-shoulder",
    "left-elbow",
    "left-hand",
    "right-hip",
    "right-knee",
    "right-foot",
    "left-hip",
    "left-knee",
    "left-foot",
    "right-eye",
    "left-eye",
    "right-ear",
    "left-ear",
)
_NAMES_3D = (
    "pelvis",
    "left-hip",
    "right-hip",
    "torso",
    "left-knee",
    "right-knee",
    "neck",
    "left-ankle",
    "right-ankle",
    "left-big-toe",
    "right-big-toe",
    "left-small-toe",
    "right-small-toe",
    "left-heel",
    "right-heel",
    "nose",
    "left-eye",
    "right-eye",
    "left-ear",
    "right-ear",
    "left-shoulder",
    "right-shoulder",
    "left-elbow",
    "right-elbow",
    "left-wrist",
    "right-wrist",
    "left-pinky-knuckle",
    "right-pinky-knuckle",
    "left-middle-tip",
    "right-middle-tip",
    "left-index-knuckle",
    "right-index-knuckle",
    "left-thumb-tip",
    "right-thumb-tip",
)
_POSES: dict[int, tuple[str, int, tuple[str, ...]]] = {
    0: ("pose2D", 2, _NAMES_2D),
    1: ("pose25D", 3, _NAMES_3D),
    2: ("pose3D", 3, _NAMES_3D),
}


def pose_name(pose_type: int) -> str | None:
    """Return what the schemas call a type of pose, or None for a type that they do not know."""
    return _POSES[pose_type][0] if pose_type in _POSES else None


def pose_axes(pose_type: int) -> int:
    """Return how many coordinates a key point has: 2 or 3, 0 for an unknown type."""
    return _POSES[pose_type][1] if pose_type in _POSES else 0


def joint_names(pose_type: int) -> tuple[str, ...]:
    """Return the names of the key points, none for an unknown type; key points beyond them are left out."""
    return _POSES[pose_type][2] if pose_type in _POSES else ()
