"""A run in a bucket of a local S3 server, through s3fs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from farout.study.records import write_verified_json
from farout.study.remote import owner
from farout.study.remote.address import Remote, RemoteError
from farout.study.remote.session import kept_at, local_folder, readable
from farout.study.store import Store, StoreError, array_file, score_table

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Address of an empty bucket."""
    moto = pytest.importorskip("moto.server", reason="needs moto's server: pip install 'moto[server]'")
    s3fs = pytest.importorskip("s3fs", reason="needs s3fs")
    import fsspec

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    monkeypatch.setenv("FAROUT_DATA", str(tmp_path / "first"))
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": f"http://{host}:{port}"})
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir("bucket")
    yield "s3://bucket/runs/study"
    server.stop()


def test_a_run_in_a_bucket(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "BEAT", 0.1)
    store = Store(local_folder(bucket)).open()
    with store.lock(), kept_at(bucket, store):
        write_verified_json(store.root / "plan.json", {"rows": []})
        for number in range(20):
            store.write(f"cell{number}", {}, {"scores.parquet": score_table({"score": np.full(9, number / 3)})})
        store.write(
            "model", {}, {"weights.safetensors": array_file({"w": np.random.default_rng(0).normal(size=2**20)})}
        )
        with pytest.raises(FileExistsError):
            Remote(bucket).create("lock.json", b"")
        monkeypatch.setenv("FAROUT_DATA", str(tmp_path / "second"))
        other = Store(local_folder(bucket)).open()
        with (
            pytest.raises(StoreError, match="another run is writing to s3://bucket"),
            other.lock(),
            kept_at(bucket, other),
        ):
            pass
    names = {path.split("/")[0] for path in Remote(bucket).list()}
    assert names == {"plan.json", "packs", "cells"}
    with other.lock(), kept_at(bucket, other):
        assert [other.scores(f"cell{number}")[0] for number in range(20)] == [number / 3 for number in range(20)]
        assert np.array_equal(
            other.arrays("model", "weights.safetensors")["w"], np.random.default_rng(0).normal(size=2**20)
        )
        other.remove_results(["model"])
    assert {path.split("/")[0] for path in Remote(bucket).list()} == {"plan.json", "packs"}
    assert Store(readable(bucket)).has("cell7")
    with pytest.raises(RemoteError, match="cannot write s3://none"):
        Remote("s3://none/run").write("x", b"")
