"""Identity: what a thing is, as a hash or a JSON value; never where it lies or when it was made.

hashes.py   hashes of JSON values, arrays and modules; which classes are the user's
values.py   a JSON value for what an attribute or variable holds
code.py     classes and functions: their source, and what that source reads from outside
objects.py  a user's object: the code of its class and what it holds
"""

from farout.identity.code import code_of, own_code_of
from farout.identity.hashes import (
    Json,
    bytes_of,
    canonical,
    digest,
    digest_arrays,
    digest_module,
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
    "is_users",
    "own_code_of",
    "own_identity",
    "same",
    "source_of",
    "sources",
    "token_of",
    "unknown_code",
]
