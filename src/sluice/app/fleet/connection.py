"""From the command line to a fleet: connecting to Ray, checking what cannot be checked afterwards, asking the host."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sluice.app.fleet.schema import Fleet, Resources
from sluice.app.serve.marks import read_yaml
from sluice.errors import ConfigurationError, SluiceError

_ANSWER = 30.0  # seconds that the host may take
STARTING = 120.0  # the same where it is started first: a process, and all that it imports
_CHECK = 20.0  # seconds that nodes may take to look for a model; the first task on a node starts a process
_LARGEST_FILE, _MOST_VALUES = 16 << 20, 1_000_000  # bytes and values of a file: ten thousand cameras and more
_EMPTY_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # a frame: length 0, type 4, no flags, stream 0
_REACH = 5.0  # seconds for a connection to the head


def read_fleet(path: Path, environment: Mapping[str, str] | None = None) -> Fleet:
    """Read and check a fleet's file; nothing that it names is opened.

    Raises:
        ConfigurationError: it cannot be read, or has faults; names each with its line.
    """
    from sluice.app.fleet.checking import check_file
    from sluice.app.serve.loading import validated

    file = read_yaml(path, _LARGEST_FILE, _MOST_VALUES)
    fleet, _ = validated(file, Fleet, environment)
    check_file(fleet, file)
    return fleet


@contextlib.contextmanager
def connected(address: str) -> Iterator[str]:
    """Be connected to a Ray cluster, whose address is given.

    Args:
        address: host:port, "auto" for the one this machine belongs to, "local" for one that ends with this process.

    Raises:
        ConfigurationError: Ray is not installed, or there is no such cluster.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigurationError("a fleet needs Ray: pip install 'sluice-video[fleet]'") from error
    from sluice.app.fleet.ray_cluster import NAMESPACE

    if ray.is_initialized():  # a program that has connected already
        yield ray.get_runtime_context().gcs_address
        return
    check_reachable(address)
    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
            include_dashboard=False if address == "local" else None,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigurationError(
            f"there is no Ray cluster at {address!r}, or it asks for a token and RAY_AUTH_MODE is not token: "
            f"{str(error).splitlines()[0]}"
        ) from error
    try:
        yield ray.get_runtime_context().gcs_address
    finally:
        ray.shutdown()


def check_reachable(address: str) -> None:
    """Refuse a host where no head answers: Ray itself would go on trying for ever.

    Raises:
        ConfigurationError: nothing listens there, or something else, or it is no address.
    """
    if address in ("auto", "local"):
        return
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65_535:
        raise ConfigurationError(f"address is {address!r}; right is host:port, auto or local")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH) as connection:
            if os.environ.get("RAY_USE_TLS") != "1":
                _greet(connection, address)
    except OSError as error:
        raise ConfigurationError(f"there is no Ray cluster at {address!r}: {error.strerror or error}") from error


def _greet(connection: socket.socket, address: str) -> None:
    """Begin HTTP/2, which gRPC and so Ray's head speaks; each side's first frame holds its settings (RFC 9113, 3.4).

    Raises:
        ConfigurationError: the other side does not answer, or speaks something else.
    """
    connection.settimeout(_REACH)
    try:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _EMPTY_SETTINGS)
        head = connection.recv(len(_EMPTY_SETTINGS))
    except TimeoutError:
        raise ConfigurationError(f"what listens at {address!r} does not answer; a Ray head would") from None
    if head[3:4] != _EMPTY_SETTINGS[3:4]:
        raise ConfigurationError(f"what listens at {address!r} is no Ray head; its port is 6379 unless it was set")


def check_cluster(fleet: Fleet) -> list[str]:
    """Refuse what the cluster cannot do, before anything is changed.

    Returns:
        What could not be checked, for people: a node that does not answer is no reason to refuse.

    Raises:
        ConfigurationError: it has too little room, or a node lacks the model; says what and where.
    """
    import ray

    nodes = {
        node["NodeID"]: node
        for node in ray.nodes()  # type: ignore[no-untyped-call]
        if node["Alive"]
    }
    wanted = math.ceil(len(fleet.streams) / fleet.workers.streams)
    room = sum(workers_of(fleet.workers.resources, node["Resources"]) for node in nodes.values())
    if room < wanted:
        asked = fleet.workers.resources.model_dump(exclude_defaults=True) or {"cpus": fleet.workers.resources.cpus}
        raise ConfigurationError(
            f"{len(fleet.streams)} streams need {wanted} workers of {fleet.workers.streams}, each with {asked}; "
            f"the {len(nodes)} node(s) have room for {room}"
        )
    faults = _ask_nodes(nodes, fleet)
    told = [f"node {nodes[node]['NodeName']}: {fault}" for node, fault in faults.items() if fault]
    silent = [f"node {nodes[node]['NodeName']} did not answer" for node in nodes.keys() - faults.keys()]
    if told:
        raise ConfigurationError("; ".join(told + silent))
    return silent


def _ask_nodes(nodes: Iterable[str], fleet: Fleet) -> dict[str, str]:
    """What each node lacks, by its id; without those that do not answer."""
    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    check = ray.remote(num_cpus=0, max_retries=0)(missing_on_this_node)
    labels = None if fleet.model.labels is None else str(fleet.model.labels)
    asked = {
        check.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
            fleet.model.name, labels
        ): node
        for node in nodes
    }
    answered, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_CHECK) if asked else ([], [])
    found = {}
    for reference in answered:
        with contextlib.suppress(RayError):  # its node has gone meanwhile
            found[asked[reference]] = ray.get(reference)
    return found


def workers_of(wanted: Resources, offered: Mapping[str, float]) -> int:
    """Return how many workers a node has room for, by all that it offers."""
    shares = [offered.get("CPU", 0.0) / wanted.cpus]
    for amount, name in (
        (wanted.gpus, "GPU"),
        (wanted.decoders, "decoder"),
        (wanted.memory_mb * 2**20, "memory"),
    ):
        if amount:
            shares.append(offered.get(name, 0.0) / amount)
    return int(min(shares))


def missing_on_this_node(model: str, labels: str | None) -> str:
    """Return what a node lacks to run a model, "" if nothing; called on the node."""
    missing = [name for name in (file_of(model), labels) if name is not None and not Path(name).exists()]
    return f"there is no file {missing[0]}" if missing else ""


def file_of(model: str) -> str | None:
    """Return the file that a model's name names; None for a registered name or a class in a package."""
    path, python, _ = model.partition(".py:")
    if python:
        return path + ".py"
    return model if "/" in model or (Path(model).suffix and ":" not in model) else None


def host_of(fleet: str, *, create: bool = False) -> Any:
    """Return the host of a fleet.

    Raises:
        ConfigurationError: there is none, and none is to be made.
    """
    import ray

    from sluice.app.fleet.host import Host
    from sluice.app.fleet.keeping import Store
    from sluice.app.fleet.ray_cluster import NAMESPACE

    name = f"{fleet}.host"
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        if not create:
            raise ConfigurationError(
                f"no fleet {fleet!r} is kept on this cluster; sluice fleet apply begins one"
            ) from None
    options = {"name": name, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
    actor = ray.remote(Host).options(max_restarts=-1, num_cpus=0, max_concurrency=8, **options)
    return actor.remote(fleet, Store(fleet))


def ask(call: Any, seconds: float = _ANSWER) -> Any:
    """Wait for the host's answer, for so many seconds at most.

    Raises:
        ConfigurationError: what the host refuses.
        SluiceError: it does not answer.
    """
    import ray
    from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

    try:
        return ray.get(call, timeout=seconds)
    except RayTaskError as error:
        raise error.cause if isinstance(error.cause, SluiceError) else SluiceError(str(error)) from None
    except (GetTimeoutError, RayActorError) as error:
        raise SluiceError(f"the fleet's host does not answer: {str(error).splitlines()[-1]}") from error


def end_process(host: Any) -> None:
    """End a fleet's host for good."""
    import ray

    ray.kill(host)
