"""DetectNet_v2, which nvinfer reads by itself: a map of coverage per class, and of four distances per class."""

from __future__ import annotations

from typing import ClassVar

from sluice.models.decoders.base import Arrays, Family, Raw, Recognition, metadata_names, no, shapes_text
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo


class DetectnetDecoder(Family):
    """DetectNet_v2 (TAO): coverage [batch, classes, h, w] and boxes [batch, 4 x classes, h, w], named cov and bbox.

    Read as nvinfer's default parser does. Input: RGB / 255, stretched.
    """

    name: ClassVar[str] = "detectnet"

    @classmethod
    def recognise(cls, info: NetworkInfo, _width: int, _height: int, /) -> Recognition:
        """Outputs of those names and shapes."""
        cov = [output for output in info.outputs if "cov" in output.name]
        bbox = [output for output in info.outputs if "bbox" in output.name]
        if not cov or not bbox:
            return no(f"needs outputs with cov and bbox in their names; has {', '.join(map(str, info.outputs))}")
        one, other = cov[-1].shape, bbox[-1].shape
        right = len(one) == len(other) == 4 and one[2:] == other[2:] and other[1] == 4 * (one[1] or 0)
        names = metadata_names(info)
        if not right or (names and len(names) != one[1]):
            return no(f"coverage [batch, C, h, w] needs boxes [batch, 4 C, h, w]; the network has {shapes_text(info)}")
        return Recognition(True, f"outputs {cov[-1]} and {bbox[-1]}: coverage and distances", one[1] or 0)

    @classmethod
    def preprocessing(cls, _info: NetworkInfo, width: int, height: int, /) -> Preprocessing:
        """RGB / 255, stretched."""
        return Preprocessing(width, height, fit="stretch")

    def __init__(self, info: NetworkInfo, width: int, height: int, /) -> None:
        # Imported late: nvinfer's modules import the decoders.
        from sluice.models.nvinfer.parsers import DetectNetParser

        super().__init__(info, width, height)
        self._classes = self.recognise(info, width, height).classes
        self._parser_of = DetectNetParser
        self._confidence = -1.0

    def decode(self, outputs: Arrays, index: int, confidence: float) -> Raw:
        """See `Decoder.decode`."""
        if confidence != self._confidence:
            self._parser = self._parser_of(self.info, self.width, self.height, [confidence] * self._classes)
            self._confidence = confidence
        return self._parser.parse(outputs, index)
