"""Runs at an address of an object store, such as s3://bucket/run: computed in a local folder, kept at the address.

address.py    files at an address, through fsspec
layout.py     which files of a run folder are kept there
fetching.py   brings the local folder up to date with the address
sending.py    brings the address up to date with the local folder
owner.py      lock of a run at an address
session.py    what `farout run` and the readers of results use
"""
