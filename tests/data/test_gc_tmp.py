import gc, warnings
import sys; sys.path.insert(0,"tests/data")
from conftest import serve, cache
from farout.data import sources
from farout.data.download import fetch, DownloadError
from farout.data.sources import Source
import pytest
K="svhn/test_32x32.mat"
def test_404(serve, monkeypatch):
    serve(K,b"x"*10**6); g=sources.SOURCES[K]
    monkeypatch.setitem(sources.SOURCES,K,Source((g.urls[0]+"-gone",),g.checksum))
    with pytest.raises(DownloadError): fetch(K)
    gc.collect()
def test_ok(serve):
    serve(K,b"x"*10**6); fetch(K); gc.collect()
def test_bad(serve):
    serve(K,b"x"*10**6).write_bytes(b"y"*10**6)
    with pytest.raises(DownloadError): fetch(K)
    gc.collect()
