"""Identity of components as a hash or a JSON value: independent of file paths and of the time of creation.

hashes.py   hashes of JSON values, arrays and modules; the test whether a class is the user's
values.py   JSON descriptions of the values of attributes and variables
code.py     descriptions of classes and functions: their source, and the outside values that it reads
objects.py  descriptions of a user's objects: the code of the class and the attributes
"""

from farout.identity.code import code_of, own_code_of
from farout.identity.hashes import (
    Json,
    bytes_of,
    canonical,
    digest,
    digest_arrays,
    digest_module,
    digest_parts,
    is_users,
    source_of,
    sources,
)
from farout.identity.objects import (
    describe,
    describe_function,
    describe_held,
    describe_maker,
    describe_object,
    own_identity,
    token_of,
    unknown_code,
)
from farout.identity.values import same

__all__ = [
    "Json",
    "bytes_of",
    "canonical",
    "code_of",
    "describe",
    "describe_function",
    "describe_held",
    "describe_maker",
    "describe_object",
    "digest",
    "digest_arrays",
    "digest_module",
    "digest_parts",
    "is_users",
    "own_code_of",
    "own_identity",
    "same",
    "source_of",
    "sources",
    "token_of",
    "unknown_code",
]
