"""Sets written to disk: whole files only, a manifest beside them, and a stopped call goes on.

drawn: SHAPES and CHARS (`farout render`). realistic: any images under shifts (`farout corrupt`): `layout` with its two
kinds, array_layout and file_layout, says where they lie, `sweep` makes them, `manifest` guards the folder.
"""
