"""The kinds of file that people hand to dmexp, each with the words for it."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What a file is, judged by its content. The value is the stable name in ``error.kind``."""

    DMEXP = "dmexp"
    DORMOUSE = "dormouse-checkpoint"
    SAFETENSORS = "safetensors"
    GGUF = "gguf"
    GGUF_SWAPPED = "gguf-big-endian"
    GGML = "ggml"
    NPZ = "npz"
    NPY = "npy"
    PYTORCH = "pytorch"
    PICKLE = "pickle"
    ZIP = "zip"
    KERAS = "keras"
    HDF5 = "hdf5"
    ONNX = "onnx"
    GIT_LFS = "git-lfs-pointer"
    HTML = "html"
    XML = "xml"
    JSON = "json"
    GZIP = "gzip"
    BZIP2 = "bzip2"
    XZ = "xz"
    ZSTD = "zstd"
    TAR = "tar"

    @property
    def words(self) -> str:
        """The kind with its article, as it stands in a sentence."""
        return _WORDS[self]

    @property
    def exportable(self) -> bool:
        """Whether `dmexp export` takes such a file as it is."""
        return self in _EXPORTABLE


_WORDS = {
    Kind.DMEXP: "a .dmexp file",
    Kind.DORMOUSE: "a training checkpoint of dormouse",
    Kind.SAFETENSORS: "a safetensors file",
    Kind.GGUF: "a GGUF file",
    Kind.GGUF_SWAPPED: "a GGUF file in big-endian byte order",
    Kind.GGML: "a GGML file, the predecessor of GGUF",
    Kind.NPZ: "an .npz archive of NumPy arrays",
    Kind.NPY: "an .npy file, one NumPy array without a name",
    Kind.PYTORCH: "a PyTorch checkpoint, a zip archive around a pickle",
    Kind.PICKLE: "a Python pickle, which older PyTorch checkpoints are",
    Kind.ZIP: "a zip archive",
    Kind.KERAS: "a Keras model archive",
    Kind.HDF5: "an HDF5 file, which older Keras models are",
    Kind.ONNX: "an ONNX model",
    Kind.GIT_LFS: "a Git LFS pointer",
    Kind.HTML: "an HTML page",
    Kind.XML: "an XML page",
    Kind.JSON: "a JSON document",
    Kind.GZIP: "a gzip archive",
    Kind.BZIP2: "a bzip2 archive",
    Kind.XZ: "an xz archive",
    Kind.ZSTD: "a zstd archive",
    Kind.TAR: "a tar archive",
}

_EXPORTABLE = frozenset({Kind.DMEXP, Kind.DORMOUSE, Kind.SAFETENSORS, Kind.GGUF, Kind.NPZ})
