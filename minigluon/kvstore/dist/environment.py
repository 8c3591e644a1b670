"""What the environment says about the job, and addresses: names resolved, interfaces found."""
from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
import threading

from ...base import AuthenticationError, KVStoreError, NotForThisError, env_float, env_int
from .actions import Limits
from .messages import Role
from .record import Record

__all__ = ["Job", "listen_host", "read_environment", "resolve", "scheduler_bind_host"]

RESOLVE_LIMIT = 4.0


class Job(Record):
    """One job as this process sees it.

    Args:
        role: what this process is.
        host, port: where the scheduler listens (a name is resolved by `resolve`).
        workers, servers: how many there are.
        wanted: the rank this process would like; -1: any.
        token: the job token; empty: none, which only works on loopback.
        bound: number of elements from which arrays are cut over all servers.
        stats: seconds between lines about the job; 0: none.
        metrics: port at which the scheduler shows counters; None: it does not.
        van: how processes of one host talk: tcp, ipc, shm, or '' for the best that works.
        slice: P3: elements of a slice (0: the plain way).
    """

    role: Role
    host: str
    port: int
    workers: int
    servers: int
    wanted: int
    token: bytes
    node_host: str
    interface: str
    limits: Limits
    bound: int
    verbose: int
    incarnation: int
    slice: int = 0
    van: str = ""
    stats: float = 0.0
    metrics: int | None = None

    @property
    def address(self) -> str:
        """The scheduler's address for messages."""
        return f"{self.host}:{self.port}"


def read_environment(role: Role | None = None) -> Job:
    """The job described by DMLC_* and friends; KVStoreError names what is missing."""
    if role is None or os.environ.get("DMLC_ROLE"):
        named = _role()
        role = named if role is None else role
    needed = ("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER")
    missing = [name for name in needed if not os.environ.get(name)]
    if missing:
        raise KVStoreError(
            f"a distributed job needs the environment variables {', '.join(needed)}; not set: "
            f"{', '.join(missing)}. Start it with minigluon-launch, or set them by hand"
        )
    _refuse_unbuilt()
    heartbeat = env_float("PS_HEARTBEAT_TIMEOUT", 10.0) or 10.0
    interval = env_float("PS_HEARTBEAT_INTERVAL", 0.0) or min(2.0, heartbeat / 4)
    limits = Limits(
        env_float("MINIGLUON_START_TIMEOUT", 60.0),
        env_float("MINIGLUON_OP_TIMEOUT", 300.0),
        heartbeat,
        interval,
    )
    workers, servers = env_int("DMLC_NUM_WORKER", 0), env_int("DMLC_NUM_SERVER", 0)
    if workers < 1 or servers < 1:
        raise KVStoreError(
            f"DMLC_NUM_WORKER={workers} and DMLC_NUM_SERVER={servers}: a distributed job needs at "
            "least one of each"
        )
    port = env_int("DMLC_PS_ROOT_PORT", 0)
    if not 0 < port < 65536:
        raise KVStoreError(f"DMLC_PS_ROOT_PORT={port}: expected a port from 1 to 65535")
    for name, seconds in (("MINIGLUON_START_TIMEOUT", limits.start),
                          ("MINIGLUON_OP_TIMEOUT", limits.operation),
                          ("PS_HEARTBEAT_TIMEOUT", heartbeat),
                          ("PS_HEARTBEAT_INTERVAL", interval)):
        if not seconds > 0:
            raise KVStoreError(f"{name}={seconds:g}: expected a positive number of seconds")
    p3 = _p3()
    van = os.environ.get("PS_VAN", "").lower()
    if van not in ("", "tcp", "ipc", "shm"):
        raise KVStoreError(f"PS_VAN={van}: expected tcp, ipc or shm")
    piece = env_int("MXNET_KVSTORE_SLICE_THRESHOLD", 40_000)
    if p3 and piece < 1:
        raise KVStoreError(f"MXNET_KVSTORE_SLICE_THRESHOLD={piece}: expected a positive number")
    return Job(
        role=role,
        host=os.environ["DMLC_PS_ROOT_URI"],
        port=port,
        workers=workers,
        servers=servers,
        wanted=env_int(f"DMLC_{role.name}_ID", -1),
        token=os.environ.get("MINIGLUON_JOB_TOKEN", "").encode(),
        node_host=os.environ.get("DMLC_NODE_HOST", ""),
        interface=os.environ.get("DMLC_INTERFACE", ""),
        limits=limits,
        bound=env_int("MXNET_KVSTORE_BIGARRAY_BOUND", 1_000_000),
        verbose=env_int("PS_VERBOSE", 0),
        incarnation=env_int("MINIGLUON_INCARNATION", 0),
        slice=piece if p3 else 0,
        van=van,
        stats=env_float("MINIGLUON_STATS", 0.0),
        metrics=env_int("MINIGLUON_METRICS_PORT", 0) if os.environ.get("MINIGLUON_METRICS_PORT")
        else None,
    )


def _role() -> Role:
    name = os.environ.get("DMLC_ROLE", "")
    try:
        return Role[name.upper()]
    except KeyError:
        raise KVStoreError(
            f"environment variable DMLC_ROLE: expected worker, server or scheduler, got {name!r}"
        ) from None


def _p3() -> bool:
    """Whether DMLC_PS_VAN_TYPE asks for slices sent by priority (P3)."""
    van = os.environ.get("DMLC_PS_VAN_TYPE", "").lower()
    if van not in ("", "zmq", "p3", "p3_zmq"):
        raise KVStoreError(f"DMLC_PS_VAN_TYPE={van}: expected zmq or p3")
    return van.startswith("p3")


def _refuse_unbuilt() -> None:
    if os.environ.get("MXNET_KVSTORE_MAX_STALENESS"):
        raise NotForThisError(
            "MXNET_KVSTORE_MAX_STALENESS: bounded staleness is not built yet; unset it"
        )


def resolve(host: str, what: str) -> str:
    """The IP address of `host`, within seconds, or KVStoreError naming it.

    >>> resolve("127.0.0.1", "the scheduler")
    '127.0.0.1'
    """
    found: list[str] = []
    problems: list[str] = ["no answer from name resolution"]

    def look_up() -> None:
        try:
            infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            problems[0] = error.strerror or str(error)
            return
        infos.sort(key=lambda info: info[0] != socket.AF_INET)  # IPv4 first, as servers bind it
        found.extend(str(info[4][0]) for info in infos)

    thread = threading.Thread(target=look_up, name="minigluon-resolve", daemon=True)
    thread.start()
    thread.join(RESOLVE_LIMIT)
    if not found:
        raise KVStoreError(
            f"the name '{host}' of {what} cannot be resolved: {problems[0]}; check "
            "DMLC_PS_ROOT_URI and DMLC_NODE_HOST"
        )
    return found[0]


def _of_interface(name: str) -> str:
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), 0x8915, request)  # SIOCGIFADDR
        except OSError as error:
            known = ", ".join(interface for _, interface in socket.if_nameindex())
            raise KVStoreError(
                f"DMLC_INTERFACE={name}: no IPv4 address ({error.strerror}); this machine has: "
                f"{known}"
            ) from None
    return socket.inet_ntoa(answer[20:24])


def listen_host(job: Job) -> str:
    """Where this process listens, and by which address others find it.

    DMLC_NODE_HOST, else the address of DMLC_INTERFACE, else loopback when the scheduler is on
    loopback, else the address from which the scheduler is reached. Anything but loopback needs a
    job token (AuthenticationError).
    """
    if job.node_host:
        host = resolve(job.node_host, f"this {job.role.name.lower()} (DMLC_NODE_HOST)")
    elif job.interface:
        host = _of_interface(job.interface)
    else:
        root = resolve(job.host, "the scheduler (DMLC_PS_ROOT_URI)")
        host = "127.0.0.1" if _loopback(root) and ":" not in root else _route_to(root, job.port)
    return _allowed(host, job)


def scheduler_bind_host(job: Job) -> str:
    """Where the scheduler listens: the address everybody is told, or DMLC_NODE_HOST."""
    name = job.node_host or job.host
    return _allowed(resolve(name, "the scheduler (DMLC_PS_ROOT_URI)"), job)


def _allowed(host: str, job: Job) -> str:
    if job.token or _loopback(host):
        return host
    raise AuthenticationError(
        f"{job.role.name.lower()} would listen at {host}, reachable from other machines, without a "
        "job token; set MINIGLUON_JOB_TOKEN to the same secret in every process of the job "
        "(minigluon-launch does), or use 127.0.0.1"
    )


def _loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback


def _route_to(host: str, port: int) -> str:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port or 9))
        except OSError as error:
            raise KVStoreError(f"no route to the scheduler at {host}: {error.strerror}") from None
        return str(probe.getsockname()[0])
