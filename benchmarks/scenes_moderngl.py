"""SHAPES drawn with moderngl on the software rasterizer llvmpipe, by one thread."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

os.environ["LIBGL_ALWAYS_SOFTWARE"] = "1"
os.environ["LP_NUM_THREADS"] = "0"

import moderngl
import numpy as np
from numpy.typing import NDArray

from benchmarks.scenes_geometry import (
    GRAY,
    POLYGONS,
    STEPS,
    Batch,
    Bytes,
    Mesh,
    batch,
    cone,
    cube,
    cylinder,
    regular,
    smooth_outlines,
    sphere,
)
from farout.data.scenes.scene import MOST_POINTS, Scenes

Arrays = dict[str, moderngl.VertexArray]

SAMPLES = 4
FANS = {**POLYGONS, **dict.fromkeys(("circle", "ellipse"), regular(64))}
MESHES = {
    **dict.fromkeys(("sphere_3d", "ellipsoid_3d"), sphere(32, 32)),
    **dict.fromkeys(("cube_3d", "cuboid_3d"), cube()),
    "cylinder_3d": cylinder(48),
    "cone_3d": cone(48),
}
FLAT_VERTEX = """#version 330
in vec2 vertex;
SCENE
flat out vec3 shade;
void main() {
    shade = paint[0].rgb * paint[1].x;
    gl_Position = model * vec4(vertex, 0.0, 1.0);
}"""
FLAT_FRAGMENT = """#version 330
flat in vec3 shade;
out vec4 pixel;
void main() { pixel = vec4(shade, 1.0); }"""
SOLID_VERTEX = """#version 330
in vec3 vertex, normal;
SCENE
out vec3 facing;
flat out vec3 color, strengths, light;
void main() {
    facing = mat3(normals) * normal;
    color = paint[0].rgb;
    strengths = paint[1].xyz;
    light = paint[2].xyz;
    gl_Position = model * vec4(vertex, 1.0);
}"""
SOLID_FRAGMENT = """#version 330
in vec3 facing;
flat in vec3 color, strengths, light;
out vec4 pixel;
void main() {
    vec3 n = normalize(facing);
    float lit = dot(n, light);
    float glint = pow(max(2.0 * lit * n.z - light.z, 0.0), 32.0);
    pixel = vec4(color * (strengths.x + strengths.y * max(lit, 0.0)) + strengths.z * glint, 1.0);
}"""


@lru_cache
def context() -> moderngl.Context:
    """One context for all canvases. Solids are convex, so that leaving out what faces away is enough."""
    gl = moderngl.create_standalone_context(backend="egl")
    gl.enable_only(moderngl.CULL_FACE)
    gl.front_face = "cw"
    return gl


def parameters(b: Batch, tiles: int) -> NDArray[np.float32]:
    """Matrices of each image as OpenGL reads them: model, paint and normals, [B, 3, 4, 4]; rows here are columns there.

    Images stand one above the other in as many tiles, the first at the bottom, each upside down: so they are read back
    in order and from the top.
    """
    matrices = np.zeros((len(b.kinds), 3, 4, 4), np.float32)
    scale = np.array([2, -2 / tiles, 0.5])
    matrices[:, 0, :3, :3] = b.model.transpose(0, 2, 1) * scale
    matrices[:, 0, 3, :2] = b.position * scale[:2]
    matrices[:, 0, 3, 1] += (2 * (np.arange(len(b.kinds)) % tiles) + 1) / tiles - 1
    matrices[:, 0, 3, 3] = 1
    matrices[:, 1, 0, :3], matrices[:, 1, 1, :3], matrices[:, 1, 2, :3] = b.color, b.strengths, b.light
    matrices[:, 2, :3, :3] = (b.axes / b.extents[:, None]).transpose(0, 2, 1)
    return matrices


class _Canvas:
    """A multisampled framebuffer for some images, the one it is resolved to, and the shaders."""

    def __init__(self, side: int, tiles: int, scene: str, qualifier: str) -> None:
        self.side, self.tiles = side, tiles
        self.gl = context()
        shape = (side, side * tiles)
        self.drawn = self.gl.framebuffer([self.gl.renderbuffer(shape, 4, samples=SAMPLES)])
        self.resolved = self.gl.framebuffer([self.gl.renderbuffer(shape, 4)])
        declared = scene.format(f"{qualifier} mat4 model; {qualifier} mat4 paint; {qualifier} mat4 normals;")
        self.flat = self.gl.program(FLAT_VERTEX.replace("SCENE", declared), FLAT_FRAGMENT)
        self.solid = self.gl.program(SOLID_VERTEX.replace("SCENE", declared), SOLID_FRAGMENT)
        self.outline = self.gl.buffer(reserve=8 * STEPS * MOST_POINTS)

    def arrays(self, *scene: Any) -> Arrays:
        """A vertex array per kind."""
        flat = {kind: self._fan(self.gl.buffer(vertices.astype("f4")), scene) for kind, vertices in FANS.items()}
        solid = {kind: self._mesh(mesh, scene) for kind, mesh in MESHES.items()}
        return flat | solid | {"random": self._fan(self.outline, scene)}

    def _fan(self, vertices: moderngl.Buffer, scene: tuple[Any, ...]) -> moderngl.VertexArray:
        parts = [(buffer, "16f4 16f4 64x/i", "model", "paint") for buffer in scene]
        return self.gl.vertex_array(self.flat, [(vertices, "2f4", "vertex"), *parts], mode=moderngl.TRIANGLE_FAN)

    def _mesh(self, mesh: Mesh, scene: tuple[Any, ...]) -> moderngl.VertexArray:
        vertices = self.gl.buffer(np.concatenate([mesh.vertices, mesh.normals], 1).astype("f4"))
        parts = [(buffer, "16f4 16f4 16f4/i", "model", "paint", "normals") for buffer in scene]
        parts.append((vertices, "3f4 3f4", "vertex", "normal"))
        return self.gl.vertex_array(self.solid, parts, self.gl.buffer(mesh.triangles))

    def calls(self, b: Batch, arrays: Arrays) -> Iterator[tuple[moderngl.VertexArray, Any, int]]:
        """Groups drawn at once, positions and numbers of vertices: random outlines one by one, else all of a kind."""
        for array, places in b.groups(arrays):
            if array is not arrays["random"]:
                yield array, places, -1
                continue
            for image, outline in zip(places, smooth_outlines(b[places]), strict=True):
                self.outline.write(outline.astype("f4"))
                yield array, [image], len(outline)

    def read_into(self, images: Bytes) -> None:
        """Resolve the samples and read back."""
        self.gl.copy_framebuffer(self.resolved, self.drawn)
        self.resolved.read_into(images, components=3, alignment=1)

    def clear(self) -> None:
        """Draw on this canvas from now on; there is nothing yet."""
        self.drawn.use()
        self.drawn.clear(GRAY / 255, GRAY / 255, GRAY / 255, 1.0)


class Single:
    """As the paper renders: an image at a time, each read back; a uniform buffer holds the scene."""

    def __init__(self, side: int) -> None:
        self.canvas = _Canvas(side, 1, "layout(std140) uniform Scene {{ {} }};", "")
        self.scene = self.canvas.gl.buffer(reserve=192)
        self.arrays = self.canvas.arrays()

    def __call__(self, scenes: Scenes) -> Bytes:
        """Images [B, side, side, 3]."""
        b, canvas = batch(scenes), self.canvas
        rows = parameters(b, 1)
        images = np.empty((len(rows), canvas.side, canvas.side, 3), np.uint8)
        self.scene.bind_to_uniform_block(0)
        for array, places, vertices in canvas.calls(b, self.arrays):
            for image in places:
                self.scene.write(rows[image])
                canvas.clear()
                array.render(vertices=vertices)
                canvas.read_into(images[image])
        return images


class Atlas:
    """A batch at a time in one tall framebuffer: one instanced call per kind, one read-back."""

    def __init__(self, side: int, tiles: int) -> None:
        self.canvas = _Canvas(side, tiles, "{}", "in")
        self.scenes = self.canvas.gl.buffer(reserve=192 * tiles)
        self.arrays = self.canvas.arrays(self.scenes)

    def __call__(self, scenes: Scenes) -> Bytes:
        """Images [B, side, side, 3]."""
        b, canvas = batch(scenes), self.canvas
        rows = parameters(b, canvas.tiles)
        images = np.empty((canvas.tiles, canvas.side, canvas.side, 3), np.uint8)
        canvas.clear()
        for array, places, vertices in canvas.calls(b, self.arrays):
            self.scenes.write(rows[places])
            array.render(vertices=vertices, instances=len(places))
        canvas.read_into(images)
        return images[: len(rows)]
