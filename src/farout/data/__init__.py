"""Image sets: downloaded sets by name, array files, folders of images, and rendered sets (SHAPES, CHARS, toy)."""

from farout.data.arrays import ArraySet
from farout.data.catalog import DATASETS, load, names, outlier_splits
from farout.data.folder import FileSet, FolderSet
from farout.data.inputs import as_image_set
from farout.data.npz import read_npz
from farout.data.procedural import Generated

__all__ = [
    "DATASETS",
    "ArraySet",
    "FileSet",
    "FolderSet",
    "Generated",
    "as_image_set",
    "load",
    "names",
    "outlier_splits",
    "read_npz",
]
