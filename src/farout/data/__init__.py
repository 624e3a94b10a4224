"""Where images come from: named sets, .npz files, folders, and sets drawn on the spot."""

from farout.data.arrays import ArraySet, read_npz
from farout.data.catalog import DATASETS, load, names, outlier_splits
from farout.data.folder import FileSet, FolderSet
from farout.data.generated import Generated

__all__ = [
    "DATASETS",
    "ArraySet",
    "FileSet",
    "FolderSet",
    "Generated",
    "load",
    "names",
    "outlier_splits",
    "read_npz",
]
