"""Image sets written to disk: complete files only, with a manifest; an interrupted call continues when repeated.

render: SHAPES and CHARS (`farout render`). realistic: any images under shifts (`farout corrupt`). layout, array_layout
and file_layout define the paths, sweep computes the images, manifest checks and describes the folder.
"""
