"""librdkafka's mock cluster as a program: prints its port, then takes "down" and "up" on its input.

The setting test.mock.num.brokers makes the same cluster, but gives no way to take a broker down.
"""

import ctypes
import sys
from pathlib import Path

import confluent_kafka

PRODUCER = 0


def load() -> ctypes.CDLL:
    """The very library that confluent_kafka has loaded."""
    folder = Path(confluent_kafka.__file__).parent
    (path,) = [*folder.glob("../confluent_kafka.libs/librdkafka-*.so*"), *folder.glob(".libs/librdkafka*.so*")]
    return ctypes.CDLL(str(path.resolve()))


def main() -> None:
    library = load()
    library.rd_kafka_conf_new.restype = library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_new.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_new.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    library.rd_kafka_mock_cluster_bootstraps.argtypes = [ctypes.c_void_p]
    reason = ctypes.create_string_buffer(512)
    client = library.rd_kafka_new(PRODUCER, library.rd_kafka_conf_new(), reason, len(reason))
    cluster = library.rd_kafka_mock_cluster_new(client, 1)
    print(library.rd_kafka_mock_cluster_bootstraps(cluster).decode().rpartition(":")[2], flush=True)
    for line in sys.stdin:
        change = getattr(library, f"rd_kafka_mock_broker_set_{line.strip()}")
        change.argtypes = [ctypes.c_void_p, ctypes.c_int32]
        change(cluster, 1)
        print(line.strip(), flush=True)


main()
