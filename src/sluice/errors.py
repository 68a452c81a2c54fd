"""The errors Sluice raises. Each message names the thing, what was wrong with it, and what would be right."""


class SluiceError(Exception):
    """Base class of every error that Sluice raises on purpose."""


class ContractError(SluiceError):
    """Metadata, a surface or a library does not have the layout or the state the contract asks for."""


class StaleBufferError(ContractError):
    """A metadata or surface wrapper was used after the buffer it belongs to had left the element."""


class ModelError(SluiceError):
    """A model could not be loaded, or returned something that is not a list of detections, one per frame."""


class ConfigurationError(SluiceError):
    """A property, an argument or a configuration file holds a value that cannot be used."""
