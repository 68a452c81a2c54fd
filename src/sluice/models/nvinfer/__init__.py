"""nvinfer's configuration files as models: parsed, checked and done as nvinfer does them, without its C++ libraries."""

from sluice.runtimes.paths import is_path

#: Endings of nvinfer's configuration files; nvinfer takes the same when it changes models while it runs.
CONFIGURATIONS = (".txt", ".yml", ".yaml")


def is_configuration(spec: str) -> bool:
    """Whether a model's name is that of a configuration file of nvinfer, by its ending."""
    return spec.endswith(CONFIGURATIONS) and is_path(spec)
