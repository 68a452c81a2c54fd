"""Which element has which slot: elements with the same ``model-instance-id`` share one, and thereby one model."""

import threading
from collections.abc import Callable

from sluice.errors import ConfigurationError
from sluice.models.instance import STOP_GRACE, LoadedModel, ModelDefinition
from sluice.models.slot import Listener, ModelSlot

_shared: dict[str, ModelSlot] = {}
_shared_lock = threading.Lock()


def acquire(
    definition: ModelDefinition,
    open_model: Callable[[ModelDefinition], LoadedModel],
    listener: Listener,
    instance_id: str | None = None,
) -> ModelSlot:
    """Return a new slot, or the one of that id; never waits for loading.

    Args:
        definition: the model to load.
        open_model: see :class:`~sluice.models.instance.ModelInstance`.
        listener: hears how swaps end until :func:`release`.
        instance_id: name under which elements share a slot; None or "" for one of one's own.

    Raises:
        ConfigurationError: the id is in use for a model that was defined differently.
    """
    with _shared_lock:
        slot = _shared.get(instance_id or "")
        if slot is None:
            slot = ModelSlot(definition, open_model)
        elif differences := definition.differences(slot.definition):
            raise ConfigurationError(
                f"model-instance-id {instance_id!r} is in use by an element with another definition: here "
                f"{', '.join(differences)}; elements that share a model instance must agree, or use another id"
            )
        if instance_id:
            _shared[instance_id] = slot
        slot.add(listener)
    return slot


def release(slot: ModelSlot, listener: Listener, timeout: float = STOP_GRACE) -> bool:
    """Give back a slot that :func:`acquire` returned with this listener; the last user closes it.

    Returns:
        False if the last user had to abandon a call, see `ModelSlot.close`; True otherwise.
    """
    with _shared_lock:
        if slot.remove(listener):
            return True
        for instance_id in [key for key, shared in _shared.items() if shared is slot]:
            del _shared[instance_id]
    return slot.close(timeout)
